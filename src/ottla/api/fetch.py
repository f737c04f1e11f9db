"""Fetch, versions 4 to 18: records from the log, for consumers and followers.

KIPs: 74 (limits), 98 (isolation), 227 (sessions), 320 (leader epochs), 516 (topic ids),
595 (diverging epochs), 951 (leader hints).
"""

from ottla.api.registry import Outcome, Parts, Pending, Request, raw_api
from ottla.broker.fetching import Answer, Fetch
from ottla.broker.leader_hints import leader_endpoints
from ottla.wire import fetch as wire
from ottla.wire.apis import ApiKey
from ottla.wire.errors import KafkaError


@raw_api(ApiKey.FETCH, wire.FIRST_VERSION, wire.LAST_VERSION)
def fetch(request: Request, body: memoryview, at: int) -> Outcome:
    """Answer at once if there is enough, else when there is or when the wait is over."""
    version = request.version
    asked = wire.read_request(body, at, version)
    node = request.node
    try:
        session, full = node.fetch_sessions.begin(asked, version, node.now_ms())
    except KafkaError as problem:
        return wire.response(version, [], error_code=problem.code)
    work = Fetch(node, session, full, asked, request.listener)
    if asked.max_wait_ms <= 0:
        return _reply(request, session.id, work.answer_at_last())
    answer = work.answer_now()
    if answer is not None:
        return _reply(request, session.id, answer)
    pending = Pending()
    pending.abandoned = work.abandon

    def answer_late(late: Answer | None) -> None:
        if late is None:
            pending.fail()
        else:
            pending.make(lambda: _reply(request, session.id, late))

    work.park(asked.max_wait_ms, answer_late)
    return pending


def _reply(request: Request, session_id: int, answer: Answer) -> Parts:
    hinted = {
        data.leader[0] for _, results in answer for data in results if data.leader is not None
    }
    return wire.response(
        request.version,
        answer,
        session_id=session_id,
        endpoints=leader_endpoints(request.node, request.listener, hinted) if hinted else (),
    )
