from ottla.client.committed import next_offset, visible_batches
from ottla.records import Record, encode_batch
from ottla.records.control import Marker, MarkerType, encode_marker


def written(first: int, count: int, producer_id: int = -1, *, transactional: bool = True) -> bytes:
    records = [Record(offset, 0, None, b"") for offset in range(first, first + count)]
    return encode_batch(
        records,
        base_offset=first,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=transactional,
    )


def ended(offset: int, producer_id: int, kind: MarkerType) -> bytes:
    return encode_marker(Marker(kind, 0, producer_id, 0), 0, base_offset=offset)


def visible(log: list[bytes], aborted: list[tuple[int, int]]) -> list[int]:
    batches = visible_batches(memoryview(b"".join(log)), aborted)
    return [header.base_offset for header, _ in batches]


def test_markers_are_for_nobody() -> None:
    log = [written(0, 2, 5), ended(2, 5, MarkerType.COMMIT), written(3, 1, transactional=False)]
    assert visible(log, []) == [0, 3]


def test_an_aborted_transaction_is_left_out_up_to_its_marker() -> None:
    log = [
        written(0, 2, 5),
        ended(2, 5, MarkerType.ABORT),
        written(3, 2, 5),
        ended(5, 5, MarkerType.COMMIT),
    ]
    assert visible(log, [(5, 0)]) == [3]


def test_other_producers_between_are_seen() -> None:
    log = [
        written(0, 1, 5),
        written(1, 1, 6),
        written(2, 1, 5),
        ended(3, 6, MarkerType.COMMIT),
        ended(4, 5, MarkerType.ABORT),
    ]
    assert visible(log, [(5, 0)]) == [1]


def test_a_producers_second_aborted_transaction_is_left_out_too() -> None:
    log = [
        written(0, 1, 5),
        ended(1, 5, MarkerType.ABORT),
        written(2, 1, 5),
        ended(3, 5, MarkerType.COMMIT),
        written(4, 1, 5),
        ended(5, 5, MarkerType.ABORT),
        written(6, 1, 5),
    ]
    assert visible(log, [(5, 4), (5, 0)]) == [2, 6]


def test_a_reply_may_begin_inside_an_aborted_transaction() -> None:
    assert visible([written(10, 2, 5), ended(12, 5, MarkerType.ABORT)], [(5, 3)]) == []


def test_an_aborting_producers_records_outside_transactions_are_seen() -> None:
    assert visible([written(0, 1, 5, transactional=False)], [(5, 0)]) == [0]


def test_what_is_cut_off_at_the_end_is_left_for_the_next_fetch() -> None:
    log = [written(0, 2), written(2, 3)]
    data = memoryview(b"".join(log))[:-1]
    assert [header.base_offset for header, _ in visible_batches(data)] == [0]
    assert next_offset(data) == 2


def test_there_is_no_next_offset_without_a_batch() -> None:
    assert next_offset(memoryview(b"")) is None
