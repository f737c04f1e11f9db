"""Where records lie in a batch's body, on both kernels."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.records import Record
from ottla.records.kernel import PURE, Kernel
from ottla.records.record import varint

from .kernels import KERNELS, Refusal, agreed, on_each_kernel, record_lists


def body_of(records: list[Record]) -> bytes:
    return PURE.encode_records(records, records[0].offset, records[0].timestamp)


@on_each_kernel
@given(records=record_lists())
def test_every_record_is_found_where_it_lies(kernel: Kernel, records: list[Record]) -> None:
    body = body_of(records)
    found = kernel.locate_records(body, len(records))
    assert b"".join(body[start:stop] for start, _, stop, *_ in found) == body
    for record, (_, rest, stop, timestamp_delta, offset_delta, key, has_value) in zip(
        records, found, strict=True
    ):
        assert key == record.key
        assert has_value == (record.value is not None)
        assert offset_delta == record.offset - records[0].offset
        assert timestamp_delta == record.timestamp - records[0].timestamp
        assert body[rest:stop].startswith(varint(offset_delta))


@given(body=st.binary(max_size=60), count=st.integers(-1, 9))
def test_all_kernels_find_the_same_in_any_bytes(body: bytes, count: int) -> None:
    agreed(lambda kernel: kernel.locate_records(body, count))


@given(records=record_lists(), data=st.data())
def test_all_kernels_find_the_same_in_damaged_records(
    records: list[Record], data: st.DataObject
) -> None:
    body = bytearray(body_of(records))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    agreed(lambda kernel: kernel.locate_records(bytes(body), len(records)))


def test_what_only_readers_look_at_is_not_checked() -> None:
    """A negative offset delta and headers without sense: the log has taken them, too."""
    inside = b"\0" + varint(0) + varint(-5) + varint(1) + b"k" + varint(9999) + b"\xff"
    body = varint(len(inside)) + inside
    for kernel in KERNELS:
        assert kernel.locate_records(body, 1) == [(0, 3, len(body), 0, -5, b"k", True)]


def test_a_key_that_passes_its_record_is_refused() -> None:
    inside = b"\0" + varint(0) + varint(0) + varint(40) + b"k" * 5
    body = varint(len(inside)) + inside
    assert agreed(lambda kernel: kernel.locate_records(body, 1)) == Refusal(
        f"a record of {len(inside)} bytes has a key of 40"
    )
