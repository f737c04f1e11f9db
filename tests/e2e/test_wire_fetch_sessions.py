"""Fetch sessions (KIP-227): a full fetch opens one, later fetches say only what has changed."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from uuid import uuid4

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from testkit.batches import values
from testkit.raw import Connection
from testkit.waiting import stretched
from tests.e2e.asking import FETCH, FETCH_BY_ID, From, fetch_request, partitions_of, produce
from tests.e2e.conftest import OwnBroker, Topics, create_topic, describe

FINAL_EPOCH = -1
FIRST_EPOCH = 0
LAST_EPOCH = 2**31 - 1


def open_session(connection: Connection, *wanted: From) -> FetchResponse:
    answer = connection.ask(fetch_request(*wanted, session_epoch=FIRST_EPOCH), FetchResponse, FETCH)
    assert answer.error_code == 0
    return answer


def go_on(
    connection: Connection, session: int, epoch: int, *wanted: From, **more: object
) -> FetchResponse:
    request = fetch_request(*wanted, session_id=session, session_epoch=epoch)
    for name, value in more.items():
        setattr(request, name, value)
    return connection.ask(request, FetchResponse, FETCH)


def places(answer: FetchResponse) -> list[tuple[str, int]]:
    return [
        (topic.topic, partition.partition_index)
        for topic in answer.responses
        for partition in topic.partitions
    ]


def test_a_full_fetch_opens_a_session_with_all_partitions(
    connection: Connection, new_topic: Topics
) -> None:
    first, second = new_topic(), new_topic()
    answer = open_session(connection, From(first), From(second))
    assert answer.session_id != 0
    assert places(answer) == [(first, 0), (second, 0)]


def test_a_session_may_begin_without_partitions(connection: Connection) -> None:
    assert open_session(connection).session_id != 0


def test_partitions_take_turns_in_the_order_of_the_requests(
    connection: Connection, new_topic: Topics
) -> None:
    """As in Kafka: one that becomes ready late keeps its place, one that gave records loses it."""
    first, second = new_topic(), new_topic()
    session = open_session(connection, From(first), From(second)).session_id
    produce(connection, second, values(b"b"))
    produce(connection, first, values(b"a"))
    served = [
        [
            place
            for place, part in zip(places(answer), partitions_of(answer), strict=True)
            if part.records
        ]
        for answer in (go_on(connection, session, epoch, max_bytes=1) for epoch in (1, 2, 3))
    ]
    assert served == [[(first, 0)], [(second, 0)], [(first, 0)]]


def test_a_high_watermark_is_told_when_the_wait_is_over(connection: Connection, topic: str) -> None:
    produce(connection, topic, values(b"a", b"b"))
    opened = open_session(connection, From(topic, 7))
    assert partitions_of(opened)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    at_the_end = go_on(
        connection, opened.session_id, 1, From(topic, 2), max_wait_ms=10, min_bytes=1
    )
    assert [part.high_watermark for part in partitions_of(at_the_end)] == [2]


def test_a_fetch_without_a_session_opens_none(connection: Connection, topic: str) -> None:
    answer = connection.ask(fetch_request(From(topic)), FetchResponse, FETCH)
    assert (answer.error_code, answer.session_id) == (0, 0)


def test_an_incremental_fetch_returns_only_what_changed(
    connection: Connection, new_topic: Topics
) -> None:
    quiet, busy = new_topic(), new_topic()
    session = open_session(connection, From(quiet), From(busy)).session_id
    nothing = go_on(connection, session, 1)
    assert (nothing.error_code, nothing.session_id, nothing.responses) == (0, session, [])
    produce(connection, busy, values(b"news"))
    changed = go_on(connection, session, 2)
    assert places(changed) == [(busy, 0)]
    assert partitions_of(changed)[0].records


def test_records_are_returned_until_the_position_moves_on(
    connection: Connection, topic: str
) -> None:
    produce(connection, topic, values(b"a"))
    session = open_session(connection, From(topic)).session_id
    again = go_on(connection, session, 1)
    assert partitions_of(again)[0].records
    moved = go_on(connection, session, 2, From(topic, 1))
    assert moved.responses == []


def test_a_partition_can_be_added_and_forgotten(connection: Connection, new_topic: Topics) -> None:
    first, second = new_topic(), new_topic()
    session = open_session(connection, From(first)).session_id
    added = go_on(connection, session, 1, From(second))
    assert places(added) == [(second, 0)]
    request = fetch_request(session_id=session, session_epoch=2, forgotten=[(first, 0)])
    assert connection.ask(request, FetchResponse, FETCH).error_code == 0
    produce(connection, first, values(b"not wanted any more"))
    produce(connection, second, values(b"wanted"))
    assert places(go_on(connection, session, 3)) == [(second, 0)]


def test_what_a_fetch_names_and_forgets_is_fetched_as_the_session_ends(
    connection: Connection, topic: str
) -> None:
    produce(connection, topic, values(b"a"))
    session = open_session(connection, From(topic)).session_id
    request = fetch_request(
        From(topic), session_id=session, session_epoch=1, forgotten=[(topic, 0)]
    )
    answer = connection.ask(request, FetchResponse, FETCH)
    assert (answer.session_id, places(answer)) == (0, [(topic, 0)])
    assert partitions_of(answer)[0].records


def test_sessions_work_with_topic_ids(connection: Connection, topic: str) -> None:
    topic_id = describe(connection, topic).topic_id

    def ask(request: FetchRequest) -> FetchResponse:
        return connection.ask(request, FetchResponse, FETCH_BY_ID)

    opened = ask(fetch_request(From(topic_id), session_epoch=FIRST_EPOCH))
    session = opened.session_id
    assert session != 0
    assert opened.responses[0].topic_id == topic_id
    assert ask(fetch_request(session_id=session, session_epoch=1)).responses == []
    produce(connection, topic, values(b"news"))
    answer = ask(fetch_request(session_id=session, session_epoch=2))
    assert answer.responses[0].topic_id == topic_id
    assert partitions_of(answer)[0].records
    gone = ask(fetch_request(session_id=session, session_epoch=3, forgotten=[(topic_id, 0)]))
    assert (gone.error_code, gone.responses) == (0, [])


def test_an_unknown_id_in_a_session_is_told_each_time(connection: Connection) -> None:
    unknown = uuid4()
    opened = connection.ask(
        fetch_request(From(unknown), session_epoch=FIRST_EPOCH), FetchResponse, FETCH_BY_ID
    )
    assert opened.session_id != 0
    assert partitions_of(opened)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    request = fetch_request(session_id=opened.session_id, session_epoch=1)
    again = connection.ask(request, FetchResponse, FETCH_BY_ID)
    assert partitions_of(again)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_unknown_partition_in_a_session_is_told_when_the_wait_is_over(
    connection: Connection, topic: str
) -> None:
    session = open_session(connection, From(topic), From("no-such-topic")).session_id
    for epoch in (1, 2):
        started = time.monotonic()
        answer = go_on(connection, session, epoch, max_wait_ms=300, min_bytes=1)
        assert places(answer) == [("no-such-topic", 0)]
        assert 0.29 <= time.monotonic() - started < stretched(5)


def test_a_session_cannot_change_from_names_to_ids(connection: Connection, topic: str) -> None:
    session = open_session(connection, From(topic)).session_id
    request = fetch_request(session_id=session, session_epoch=1)
    answer = connection.ask(request, FetchResponse, FETCH_BY_ID)
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_unknown_session_is_refused(connection: Connection) -> None:
    answer = go_on(connection, 123456789, 1)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (answer.session_id, answer.responses) == (0, [])


@pytest.mark.parametrize("epoch", [2, 7, LAST_EPOCH])
def test_a_wrong_epoch_is_refused(connection: Connection, topic: str, epoch: int) -> None:
    session = open_session(connection, From(topic)).session_id
    answer = go_on(connection, session, epoch)
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert answer.responses == []
    assert go_on(connection, session, 1).error_code == 0


def test_the_final_epoch_closes_the_session(connection: Connection, topic: str) -> None:
    session = open_session(connection, From(topic)).session_id
    closing = go_on(connection, session, FINAL_EPOCH, From(topic))
    assert (closing.error_code, closing.session_id) == (0, 0)
    assert places(closing) == [(topic, 0)]
    after = go_on(connection, session, 1)
    assert after.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_fetch_replaces_the_session_it_names(connection: Connection, topic: str) -> None:
    old = open_session(connection, From(topic)).session_id
    new = go_on(connection, old, FIRST_EPOCH, From(topic))
    assert new.error_code == 0
    assert new.session_id not in (0, old)
    assert go_on(connection, old, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_outlives_its_connection(connect: Callable[[], Connection], topic: str) -> None:
    first = connect()
    session = open_session(first, From(topic)).session_id
    first.close()
    produce(connect(), topic, values(b"news"))
    assert places(go_on(connect(), session, 1)) == [(topic, 0)]


def test_an_error_in_a_session_is_told_until_it_is_gone(connection: Connection, topic: str) -> None:
    opened = open_session(connection, From(topic, 99))
    assert partitions_of(opened)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    again = go_on(connection, opened.session_id, 1)
    assert partitions_of(again)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    mended = go_on(connection, opened.session_id, 2, From(topic, 0))
    assert partitions_of(mended)[0].error_code == 0


def test_partitions_take_turns_when_a_fetch_is_full(
    connection: Connection, new_topic: Topics
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        produce(connection, topic, values(b"x" * 1000), partition)
    wanted = [From(topic, partition=partition) for partition in range(3)]
    opened = connection.ask(
        fetch_request(*wanted, session_epoch=FIRST_EPOCH, max_bytes=1), FetchResponse, FETCH
    )
    filled = []
    for epoch in range(1, 7):
        answer = go_on(connection, opened.session_id, epoch, max_bytes=1)
        filled += [p.partition_index for p in partitions_of(answer) if p.records]
    assert sorted(filled[:3]) == [0, 1, 2]
    assert filled[3:] == filled[:3]


def test_a_waiting_incremental_fetch_is_woken(
    connect: Callable[[], Connection], topic: str
) -> None:
    waiting = connect()
    session = open_session(waiting, From(topic)).session_id
    request = fetch_request(session_id=session, session_epoch=1, max_wait_ms=60_000, min_bytes=1)
    waiting.send(request, FETCH)
    produce(connect(), topic, values(b"wake"))
    _, answer = waiting.receive(FetchResponse, FETCH)
    assert places(answer) == [(topic, 0)]


def test_when_the_cache_is_full_new_readers_get_no_session(own_broker: OwnBroker) -> None:
    broker = own_broker({"max.incremental.fetch.session.cache.slots": "5"})
    with ExitStack() as stack:
        connection = stack.enter_context(Connection(broker.bootstrap))
        create_topic(connection, "crowded")
        sessions = [open_session(connection, From("crowded")).session_id for _ in range(5)]
        assert len(set(sessions) - {0}) == 5
        late = open_session(connection, From("crowded"))
        assert late.session_id == 0
        assert places(late) == [("crowded", 0)]
        for session in sessions:
            assert go_on(connection, session, 1).error_code == 0
