import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import (  # type: ignore[import-untyped]  # it has no types
    murmur2 as kafka_python_murmur2,
)

from ottla.records.hashing import murmur2, partition_of


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_the_java_clients(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF


@given(st.binary(max_size=100))
def test_the_hash_is_kafka_pythons(data: bytes) -> None:
    assert murmur2(data) == kafka_python_murmur2(data)


@given(st.binary(), st.integers(min_value=1, max_value=10_000))
def test_every_key_has_a_partition(key: bytes, count: int) -> None:
    assert 0 <= partition_of(key, count) < count
