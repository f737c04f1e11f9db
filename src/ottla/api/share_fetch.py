"""ShareFetch, versions 1 and 2: records for a member of a share group, and its acknowledgements.

KIPs: 932 (share groups), 1206 (acquire modes), 1222 (renewal of locks).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from ottla.api.authorization import Inside
from ottla.api.registry import LONG_BYTES, Outcome, Request, raw_api
from ottla.api.share_requests import Codes, acknowledged, hints_of, refusal_of, session_key
from ottla.broker.scheduling.waiting import settled
from ottla.broker.sharing.delayed_share_fetch import Fetched, FetchedPartition, ShareFetchParams
from ottla.later import Later
from ottla.security.operations import Operation, ResourceType
from ottla.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, TopicIdPartition
from ottla.share.states import AcquireMode
from ottla.wire import codec
from ottla.wire import share_fetch as wire
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_fetch import ShareFetchRequest
from ottla.wire.reply import Parts, UnanswerableError
from ottla.wire.share_fetch import SharePartitionData

NOTHING = FetchedPartition(ErrorCode.NONE)
MOST_PARTITIONS: Final = 5000
"""Of a session: all of them are looked at in one turn of the loop."""


@raw_api(
    ApiKey.SHARE_FETCH,
    wire.FIRST_VERSION,
    wire.LAST_VERSION,
    authorize=Inside((Operation.READ, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
)
def share_fetch(request: Request, body: memoryview, at: int) -> Outcome:
    """Take acknowledgements, then acquire records, at once or when there are enough."""
    if len(body) - at > LONG_BYTES:
        return _long(request, bytes(body[at:]))
    return _handled(request, codec.decode(ShareFetchRequest, request.version, body, at))


async def _long(request: Request, body: bytes) -> Parts | None:
    """A request with many partitions is read by a thread."""
    try:
        asked = await request.node.decoding.of_message(
            lambda: codec.decode(ShareFetchRequest, request.version, body)
        )
    except codec.DecodeError as problem:
        raise UnanswerableError(f"malformed request: {problem}") from None
    outcome = _handled(request, asked)
    return await settled(outcome) if isinstance(outcome, Later) else outcome


def _handled(request: Request, asked: ShareFetchRequest) -> Parts | Later[Parts | None]:
    try:
        _check_number(sum(len(topic.partitions) for topic in asked.topics))
        key = session_key(request, asked.group_id, asked.member_id)
        mode = _checked_mode(asked)
        wanted = _enter_session(request, key, asked)
    except KafkaError as problem:
        reply = wire.response([], error_code=problem.code)
        if problem.code != ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return reply
        return _after(asked.max_wait_ms, reply)  # so that the client does not ask at once again
    codes: Later[Codes] = Later()
    if _has_acknowledgements(asked):
        codes = acknowledged(request, key, asked.topics, asked.is_renew_ack)
    else:
        codes.complete({})
    fetched = _fetch(request, key, asked, mode, wanted)
    return _ShareReply(request, key, asked, codes, fetched).later()


def _check_number(partitions: int) -> None:
    if partitions > MOST_PARTITIONS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a share session has at most {MOST_PARTITIONS} partitions of one broker",
        )


def _has_acknowledgements(asked: ShareFetchRequest) -> bool:
    return any(each.acknowledgement_batches for topic in asked.topics for each in topic.partitions)


def _checked_mode(asked: ShareFetchRequest) -> AcquireMode:
    if asked.is_renew_ack and any(
        (asked.max_bytes, asked.min_bytes, asked.max_records, asked.max_wait_ms)
    ):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a request that renews locks must not fetch records"
        )
    try:
        return AcquireMode(asked.share_acquire_mode)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the acquire mode is unknown") from None


def _enter_session(
    request: Request, key: SessionKey, asked: ShareFetchRequest
) -> Sequence[TopicIdPartition]:
    """Open, update or end the session; what is to be fetched. Raises KafkaError."""
    sharing = request.node.sharing
    epoch = asked.share_session_epoch
    named = [
        TopicIdPartition(topic.topic_id, each.partition_index)
        for topic in asked.topics
        for each in topic.partitions
    ]
    if epoch == FINAL_EPOCH:
        sharing.sessions.find(key)
        return ()
    if epoch == INITIAL_EPOCH:
        if _has_acknowledgements(asked):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the first request has acknowledgements")
        session = sharing.open_session(key, request.connection_id, named)
    else:
        session = sharing.sessions.find(key)
        session.move_on(epoch)
        forgotten = [
            TopicIdPartition(topic.topic_id, index)
            for topic in asked.forgotten_topics_data
            for index in topic.partitions
        ]
        session.update(named, forgotten)
        _check_number(len(session.partitions))
    wanted = list(session.partitions)
    turn = epoch % len(wanted) if wanted else 0
    return wanted[turn:] + wanted[:turn]


def _fetch(
    request: Request,
    key: SessionKey,
    asked: ShareFetchRequest,
    mode: AcquireMode,
    wanted: Sequence[TopicIdPartition],
) -> Fetched | Later[Fetched]:
    if asked.is_renew_ack:
        return {}
    refused: Fetched = {}
    allowed: list[TopicIdPartition] = []
    for where in wanted:
        code = refusal_of(request, where)
        if code is None:
            allowed.append(where)
        else:
            refused[where] = FetchedPartition(code)
    if not allowed:
        return refused
    max_bytes = min(asked.max_bytes, request.node.config.fetch_max_bytes)
    params = ShareFetchParams(
        key.group,
        key.member,
        asked.max_wait_ms,
        min(asked.min_bytes, max_bytes),
        max_bytes,
        asked.max_records,
        asked.batch_size,
        mode,
    )
    fetched = request.node.sharing.fetch(params, allowed)
    if isinstance(fetched, Later):
        return fetched.map(lambda found: {**found, **refused})
    return {**fetched, **refused}


def _after(wait_ms: int, reply: Parts) -> Later[Parts | None]:
    later: Later[Parts | None] = Later()
    timer = asyncio.get_running_loop().call_later(
        max(0, wait_ms) / 1000, lambda: later.complete(reply)
    )
    later.when_abandoned(timer.cancel)
    return later


class _ShareReply:
    """The reply, when both the records and the outcomes of acknowledgements are there."""

    def __init__(
        self,
        request: Request,
        key: SessionKey,
        asked: ShareFetchRequest,
        codes: Later[Codes],
        fetched: Fetched | Later[Fetched],
    ) -> None:
        self._request = request
        self._key = key
        self._is_final = asked.share_session_epoch == FINAL_EPOCH
        self._codes = codes
        self._fetched = fetched
        self._reply: Later[Parts | None] = Later()

    def later(self) -> Parts | Later[Parts | None]:
        """The reply, now if nothing is waited for."""
        fetched = self._fetched
        if not isinstance(fetched, Later) and self._codes.done:
            return self._made()
        if isinstance(fetched, Later):
            self._reply.when_abandoned(fetched.abandon)
            fetched.then(self._one_more)
        self._codes.then(self._one_more)
        return self._reply

    def _one_more(self) -> None:
        fetched = self._fetched
        if self._reply.done or not self._codes.done:
            return
        if not isinstance(fetched, Later) or fetched.done:
            self._reply.make(self._made)

    def _made(self) -> Parts:
        fetched = self._fetched
        results = fetched.result() if isinstance(fetched, Later) else fetched
        codes = self._codes.result()
        request = self._request
        hints = hints_of(request, [(where, data.error_code) for where, data in results.items()])
        topics: dict[UUID, list[SharePartitionData]] = {}
        for where in (*results, *(each for each in codes if each not in results)):
            data = results.get(where, NOTHING)
            topics.setdefault(where.topic_id, []).append(
                SharePartitionData(
                    where.partition,
                    data.error_code,
                    codes.get(where, ErrorCode.NONE),
                    data.records,
                    data.acquired,
                    hints.leaders.get(where, (0, 0)),
                )
            )
        if self._is_final:
            request.node.sharing.close_session(self._key)
        lock = request.node.sharing.settings.of(self._key.group).partition.lock_duration_ms
        return wire.response(
            [(topic_id.bytes, parts) for topic_id, parts in topics.items()],
            lock_timeout_ms=lock,
            endpoints=hints.endpoints,
        )
