"""The kernels that tests run on, and what they make of the same bytes."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import strategies as st

from ottla.records import Record
from ottla.records.kernel import NATIVE, PURE, Kernel
from ottla.wire.errors import ErrorCode, KafkaError

NOW = 1_700_000_000_000
KERNELS = [PURE] if NATIVE is None else [PURE, NATIVE]

on_each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)

parts = st.none() | st.binary(max_size=100)
header_lists = st.lists(st.tuples(st.text(max_size=8), parts), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.integers(1, 1000))
        timestamp = draw(st.integers(-1, 2**50))
        records.append(Record(offset, timestamp, draw(parts), draw(parts), draw(header_lists)))
    return records


def exact(data: bytes | bytearray) -> "array[int]":
    """Bytes in memory that ends with them, as a slice of an array has it: so that a sanitizer sees
    a single byte that is read beyond (tools/kernel_asan.sh).
    """
    return array("B", data)[:]


@dataclass
class Refusal:
    """How a kernel says that bytes are bad."""

    words: str


def outcome(attempt: Callable[[], object]) -> object:
    """What an attempt gives back, or how it is refused: with the one code that there is for it."""
    try:
        return attempt()
    except KafkaError as refused:
        if refused.code is not ErrorCode.CORRUPT_MESSAGE:
            raise
        return Refusal(str(refused))


def agreed(attempt: Callable[[Kernel], object]) -> object:
    """The one outcome of all kernels."""
    first, *others = [outcome(partial(attempt, kernel)) for kernel in KERNELS]
    assert all(other == first for other in others), (first, others)
    return first
