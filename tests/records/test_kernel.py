"""Both kernels do the same with records, and with bytes that are none."""

import shutil
import sysconfig
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import Record
from ottla.records.kernel import NATIVE, PURE, Kernel
from ottla.records.record import varint

from .kernels import NOW, Refusal, agreed, exact, on_each_kernel, record_lists


def test_the_native_kernel_is_there_where_a_compiler_is() -> None:
    compilers = ["cc", "gcc", "clang", *(sysconfig.get_config_var("CC") or "").split()[:1]]
    assert NATIVE or not any(map(shutil.which, compilers)), "pip install -e . did not build it"


def plain(records: list[Record]) -> list[tuple[object, ...]]:
    assert all(type(record) is Record for record in records)
    return [(*record[:4], [tuple(header) for header in record.headers]) for record in records]


@on_each_kernel
@settings(deadline=None)
@given(records=record_lists(), before=st.integers(0, 1000))
def test_records_come_back_as_they_were(kernel: Kernel, records: list[Record], before: int) -> None:
    base = max(0, records[0].offset - before)
    body = kernel.encode_records(records, base, NOW)
    assert body == PURE.encode_records(records, base, NOW)
    assert plain(kernel.decode_records(body, len(records), base, NOW, None)) == plain(records)
    stamped = kernel.decode_records(memoryview(bytearray(body)), len(records), base, NOW, 77)
    assert {record.timestamp for record in stamped} == {77}


@settings(deadline=None, max_examples=500)
@given(body=st.binary(max_size=120), count=st.integers(-3, 12), base=st.integers(-1, 2**63 - 1))
def test_random_bytes_mean_the_same_to_both(body: bytes, count: int, base: int) -> None:
    data = exact(body)
    agreed(lambda kernel: kernel.decode_records(data, count, base, base, None))


@settings(deadline=None, max_examples=500)
@given(
    records=record_lists(),
    changes=st.lists(st.tuples(st.integers(0, 10**4), st.binary(max_size=3)), min_size=1),
)
def test_changed_bytes_mean_the_same_to_both(
    records: list[Record], changes: list[tuple[int, bytes]]
) -> None:
    body = bytearray(PURE.encode_records(records, records[0].offset, NOW))
    for position, byte in changes:
        at = position % (len(body) + 1)
        body[at : at + 1] = byte
    data = exact(body)
    agreed(lambda kernel: kernel.decode_records(data, len(records), 0, NOW, None))
    agreed(lambda kernel: kernel.decode_records(data, len(records), 2**63 - 50, 0, 5))


def decoded(body: bytes, kernel: Kernel) -> list[Record]:
    return kernel.decode_records(exact(body), 4, 0, NOW, None)


def test_a_body_cut_off_anywhere_is_refused_with_the_same_words() -> None:
    records = [Record(at, NOW, b"key" * at, b"v" * 99 * at, [("h", b"x")]) for at in range(4)]
    body = PURE.encode_records(records, 0, NOW)
    for size in range(len(body)):
        assert isinstance(agreed(partial(decoded, body[:size])), Refusal)


@pytest.mark.parametrize("number", [0, 63, -64, 64, -65, 2**31 - 1, 2**62, -(2**62), 2**63 - 1])
@on_each_kernel
def test_timestamps_may_be_anywhere_in_64_bits(kernel: Kernel, number: int) -> None:
    record = Record(0, number, None, None)
    body = kernel.encode_records([record], 0, 0)
    assert kernel.decode_records(body, 1, 0, 0, None) == [record]


@on_each_kernel
def test_a_timestamp_past_64_bits_is_refused(kernel: Kernel) -> None:
    inside = b"\0" + varint(2**63 - 1) + b"\0\x01\x01\0"
    body = varint(len(inside)) + inside
    said = agreed(lambda kernel: kernel.decode_records(body, 1, 0, 1, None))
    assert said == Refusal(f"offset delta 0, timestamp delta {2**63 - 1}")
    assert kernel.decode_records(body, 1, 0, 0, None)[0].timestamp == 2**63 - 1
    with pytest.raises(ValueError, match="64 bits"):
        kernel.encode_records([Record(0, 2**63 - 1, None, None)], 0, -2)


@on_each_kernel
def test_header_keys_that_are_not_text_survive(kernel: Kernel) -> None:
    key = b"\xff\x00k".decode("utf-8", "surrogateescape")
    body = kernel.encode_records([Record(0, 0, None, None, [(key, b"v")])], 0, 0)
    assert b"\xff\x00k" in body
    assert kernel.decode_records(body, 1, 0, 0, None)[0].headers == [(key, b"v")]


@on_each_kernel
@pytest.mark.parametrize("offsets", [(5, 5), (-1,), (2**31,), (3, 2), (2**70,)])
def test_offsets_that_fit_in_no_batch_are_refused(kernel: Kernel, offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="batch"):
        kernel.encode_records([Record(offset, NOW, None, None) for offset in offsets], 0, NOW)
