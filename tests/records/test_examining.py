"""What is asked of records without making them, on both kernels."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import Record
from ottla.records.kernel import NATIVE, PURE, Kernel
from ottla.records.layout import MOST_NAMED
from ottla.records.record import varint

from .kernels import agreed, exact, on_each_kernel, record_lists

INSIDE = b"\0\0\0" + varint(-1) + varint(-1) + b"\0"
KEYLESS = varint(len(INSIDE)) + INSIDE


def body_of(records: list[Record]) -> bytes:
    return PURE.encode_records(records, records[0].offset, records[0].timestamp)


@on_each_kernel
@given(records=record_lists(), data=st.data())
def test_what_is_found_is_what_the_records_say(
    kernel: Kernel, records: list[Record], data: st.DataObject
) -> None:
    body, base = body_of(records), records[0].timestamp
    times = [record.timestamp for record in records]
    earliest, latest = sorted(data.draw(st.sampled_from([*times, 0, 2**40])) for _ in range(2))
    found = kernel.examine_records(exact(body), len(records), base, earliest, latest)
    assert found.max_timestamp == max(times)
    assert found.keyless == [at for at, record in enumerate(records) if record.key is None]
    assert found.untimely == [
        (at, time) for at, time in enumerate(times) if time != -1 and not earliest <= time <= latest
    ]


@on_each_kernel
@given(records=record_lists(), data=st.data())
def test_the_first_record_at_a_time_and_offset_is_found(
    kernel: Kernel, records: list[Record], data: st.DataObject
) -> None:
    first = records[0]
    time = data.draw(st.sampled_from([record.timestamp for record in records])) + 1
    delta = data.draw(st.sampled_from([record.offset - first.offset for record in records]))
    expected = [
        (record.timestamp, record.offset - first.offset)
        for record in records
        if record.timestamp >= time and record.offset - first.offset >= delta
    ]
    found = kernel.seek_timestamp(
        exact(body_of(records)), len(records), first.timestamp, time, delta
    )
    assert found == (expected[0] if expected else None)


@given(records=record_lists(), data=st.data())
def test_all_kernels_say_the_same_of_damaged_records(
    records: list[Record], data: st.DataObject
) -> None:
    body = bytearray(body_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    agreed(lambda kernel: kernel.examine_records(exact(body), len(records), 0))
    agreed(lambda kernel: kernel.seek_timestamp(exact(body), len(records), 0, 5, 1))


@on_each_kernel
def test_not_every_record_of_many_is_named(kernel: Kernel) -> None:
    found = kernel.examine_records(KEYLESS * 500, 500, 7, 8)
    assert found.keyless == list(range(MOST_NAMED))
    assert found.untimely == [(at, 7) for at in range(MOST_NAMED)]


# Without a compiler there is only the kernel in Python, which makes no such promise.
@pytest.mark.skipif(NATIVE is None, reason="the kernel in Python makes records one by one")
def test_a_million_records_take_no_memory_of_their_own() -> None:
    assert NATIVE is not None
    body = KEYLESS * 1_000_000
    tracemalloc.start()
    try:
        assert NATIVE.examine_records(body, 1_000_000, 7).max_timestamp == 7
        assert NATIVE.seek_timestamp(body, 1_000_000, 7, 8, 0) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@on_each_kernel
@given(records=record_lists())
def test_validation_finds_the_largest_timestamp_behind_a_position(
    kernel: Kernel, records: list[Record]
) -> None:
    data = exact(b"header" + body_of(records))
    largest = max(record.timestamp for record in records)
    assert kernel.validate_records(data, 6, len(records), records[0].timestamp) == largest


@given(records=record_lists(), data=st.data())
def test_all_kernels_find_the_same_records_invalid(
    records: list[Record], data: st.DataObject
) -> None:
    body = bytearray(body_of(records))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    count = len(records) + data.draw(st.integers(-1, 1))
    agreed(lambda kernel: kernel.validate_records(exact(body), 0, count, 0))


@pytest.mark.parametrize("base", [0, 2**63 - 3, -(2**63) + 3])
def test_all_kernels_find_every_changed_byte_of_plain_records_valid_or_not(base: int) -> None:
    records = [Record(0, 0, None, b"v"), Record(1, 2, b"k", b"w" * 70), Record(2, 9, b"", None)]
    body = bytearray(body_of(records))
    for at, was in enumerate(bytes(body)):
        if was in b"w":
            continue
        for byte in range(256):
            body[at] = byte
            agreed(lambda kernel: kernel.validate_records(exact(body), 0, 3, base))
        body[at] = was
