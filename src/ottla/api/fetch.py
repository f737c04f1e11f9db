"""Fetch, versions 4 to 18: records from the log, for consumers and followers.

KIPs: 74 (limits), 98 (isolation), 227 (sessions), 320 (leader epochs), 516 (topic ids),
595 (diverging epochs), 951 (leader hints).
"""

import asyncio
from collections.abc import Sequence

from ottla.api.authorization import Inside
from ottla.api.registry import LONG_BYTES, Outcome, Request, raw_api
from ottla.broker.replicas.decoding import unhurried
from ottla.broker.replicas.delayed_fetch import MOST_AT_ONCE, Answer, DelayedFetch
from ottla.broker.replicas.fetch_arrival import arrived
from ottla.broker.replicas.fetch_reader import unpin
from ottla.broker.replicas.fetch_sessions import FetchSession
from ottla.later import Ending, Later
from ottla.security.operations import Operation, ResourceType
from ottla.security.quotas import CONSUME
from ottla.wire import fetch as wire
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fields import DecodeError
from ottla.wire.produce import NodeEndpoint
from ottla.wire.reply import Parts, UnanswerableError


@raw_api(
    ApiKey.FETCH,
    wire.FIRST_VERSION,
    wire.LAST_VERSION,
    authorize=Inside(
        (Operation.READ, ResourceType.TOPIC), (Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    ),
)
def fetch(request: Request, body: memoryview, at: int) -> Outcome:
    """Answer at once if there is enough, else when there is or when the wait is over."""
    version = request.version
    if len(body) - at > LONG_BYTES:
        return _fetch_many(request, bytes(body[at:]))
    asked = wire.read_request(body, at, version)
    node = request.node
    if not node.quotas.is_empty:
        asked = _within_quota(request, asked)
    if asked.replica_id >= 0 and not _may_follow(request):
        return _refuse_follower(request, asked)
    owner = request.access.principal
    try:
        session, full = node.fetch_sessions.begin(asked, version, node.elapsed_ms(), owner)
    except KafkaError as problem:
        return wire.response(version, [], error_code=problem.code)
    answer = DelayedFetch(
        node.fetches, session, full, asked, request.listener, request.access
    ).begin()
    if not isinstance(answer, Later):
        return _reply(request, session.id, answer)
    later: Later[Parts | None] = Later()
    _reply_later(request, session, answer, later)
    return later


def _within_quota(request: Request, asked: wire.FetchRequest) -> wire.FetchRequest:
    """A consumer gets at most what its quota allows it to use at once."""
    most = None if asked.replica_id >= 0 else request.node.quotas.most_at_once(CONSUME, request)
    return asked if most is None else asked._replace(max_bytes=min(asked.max_bytes, int(most)))


def _may_follow(request: Request) -> bool:
    return request.access.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


def _refuse_follower(request: Request, asked: wire.FetchRequest) -> Parts:
    """Who may not copy as a broker gets nothing, and its positions are noted nowhere."""
    if asked.session_epoch > 0:
        code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return wire.response(request.version, [], error_code=code)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return wire.response(
        request.version,
        [
            (topic, [wire.PartitionData(ask.partition, code, -1, -1, -1, ()) for ask in asks])
            for topic, asks in asked.topics
        ],
    )


def _fetch_many(request: Request, body: bytes) -> Later[Parts | None]:
    """The same where many partitions are named: nothing is done in one turn of the loop."""
    later: Later[Parts | None] = Later()
    task = request.node.background.run(_begin_many(request, body, later))
    later.when_abandoned(lambda: _cancel(task))
    return later


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _begin_many(request: Request, body: bytes, later: Later[Parts | None]) -> None:
    node, version = request.node, request.version
    try:
        async with node.decoding.long_fetches:
            asked = await node.decoding.of_message(
                lambda: wire.read_request(memoryview(body), 0, version, unhurried)
            )
            asked = _within_quota(request, asked)
            if asked.replica_id >= 0 and not _may_follow(request):
                later.complete(_refuse_follower(request, asked))
                return
            owner = request.access.principal
            session, full = await arrived(node.fetches, asked, version, owner)
        answer = DelayedFetch(
            node.fetches, session, full, asked, request.listener, request.access, noted=True
        ).begin()
    except KafkaError as problem:
        later.complete(wire.response(version, [], error_code=problem.code))
    except DecodeError as problem:
        later.fail(UnanswerableError(f"malformed Fetch v{version}: {problem}"))
    except Exception as problem:  # noqa: BLE001 its client must not wait for ever
        later.fail(problem)
    else:
        if isinstance(answer, Later):
            _reply_later(request, session, answer, later)
        else:
            _write(request, session.id, answer, later)


def _reply_later(
    request: Request, session: FetchSession, answer: Later[Answer], later: Later[Parts | None]
) -> None:
    def write() -> None:
        try:
            found = answer.result()
        except Exception as problem:  # noqa: BLE001 the connection says what went wrong
            later.fail(problem)
        else:
            _write(request, session.id, found, later)

    later.when_abandoned(answer.abandon)
    answer.then(write)


def _write(request: Request, session_id: int, answer: Answer, later: Later[Parts | None]) -> None:
    """Write a reply; a thread does it where it is long."""
    only = len(answer[0][1]) if len(answer) == 1 else 0
    if (only or sum(len(results) for _, results in answer)) <= MOST_AT_ONCE:
        later.make(lambda: _reply(request, session_id, answer))
        return

    def let_go() -> None:
        for _, results in answer:
            for data in results:
                unpin(data)

    def finish() -> None:
        if later.ending is not Ending.WAITING:
            return
        try:
            parts = writing.result()
        except BaseException as problem:  # noqa: BLE001 the connection says what went wrong
            let_go()
            later.fail(problem)
        else:
            later.complete(parts)

    endpoints = _endpoints(request, answer)
    writing = request.node.decoding.of_message(
        lambda: wire.response(
            request.version, answer, session_id=session_id, endpoints=endpoints, each=unhurried
        )
    )
    writing.add_done_callback(lambda _: finish())
    later.when_abandoned(let_go)


def _reply(request: Request, session_id: int, answer: Answer) -> Parts:
    return wire.response(
        request.version,
        answer,
        session_id=session_id,
        endpoints=_endpoints(request, answer),
    )


def _endpoints(request: Request, answer: Answer) -> Sequence[NodeEndpoint]:
    hinted = {
        data.leader[0] for _, results in answer for data in results if data.leader is not None
    }
    return request.node.leaders.endpoints(request.listener, hinted) if hinted else ()
