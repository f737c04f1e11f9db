"""Which quota is a client's, and how long a client is throttled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.quotas import (
    CONNECTION,
    DEFAULT,
    MOST_BUCKETS,
    PRODUCE,
    Bucket,
    Entity,
    Quotas,
    check_value,
    entity_of,
)
from ottla.wire.errors import ErrorCode, KafkaError

IN_ORDER = [
    Entity("alice", "app"),
    Entity("alice", DEFAULT),
    Entity("alice"),
    Entity(DEFAULT, "app"),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT),
    Entity(None, "app"),
    Entity(None, DEFAULT),
]


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_most_specific_quota_counts(first: int) -> None:
    quotas = Quotas(10)
    quotas.configured({each: {PRODUCE: float(n)} for n, each in enumerate(IN_ORDER) if n >= first})
    found = quotas.limit(PRODUCE, "alice", "app")
    assert found is not None
    assert found[0] == first


def test_a_default_is_for_each_user_alone_and_a_users_quota_for_all_clients_of_it() -> None:
    quotas = Quotas(10)
    quotas.configured({Entity(DEFAULT): {PRODUCE: 1.0}})
    alice = quotas.find(PRODUCE, "alice", "one", 0)
    assert alice is quotas.find(PRODUCE, "alice", "two", 0)
    assert alice is not quotas.find(PRODUCE, "bob", "one", 0)


def test_a_burst_of_the_window_is_free_and_the_rest_is_waited_for() -> None:
    bucket = Bucket(100.0, 10, 0.0)
    assert bucket.take(1000, 0.0) == 0
    assert bucket.take(200, 0.0) == pytest.approx(2.0)
    assert bucket.wait(1.0) == pytest.approx(1.0)
    assert bucket.wait(2.0) == 0


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 2000)), min_size=1, max_size=50))
def test_over_a_long_time_no_client_gets_more_than_its_rate(
    steps: list[tuple[float, float]],
) -> None:
    """A client that obeys its throttle time."""
    bucket = Bucket(100.0, 10, 0.0)
    now = used = 0.0
    for pause, amount in steps:
        now += pause
        now += bucket.take(amount, now)
        used += amount
    assert used <= 1000 + 100 * now + 1e-6


def test_another_rate_does_not_forgive_what_is_owed() -> None:
    quotas = Quotas(10)
    quotas.configured({Entity("alice"): {PRODUCE: 100.0}})
    first = quotas.find(PRODUCE, "alice", "", 0.0)
    assert first is not None
    assert first.take(2000, 0.0) == pytest.approx(10)
    quotas.configured({Entity("alice"): {PRODUCE: 1000.0}})
    again = quotas.find(PRODUCE, "alice", "", 0.0)
    assert again is first
    assert again.wait(0.0) == pytest.approx(1)
    quotas.configured({})
    assert quotas.find(PRODUCE, "alice", "", 0.0) is None
    assert quotas.is_empty


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        (Entity("a"), "x", 1, "Invalid configuration key x"),
        (Entity("a"), CONNECTION, 1, f"Invalid configuration key {CONNECTION}"),
        (Entity(ip="a"), PRODUCE, 1, f"Invalid configuration key {PRODUCE}"),
        (Entity("a"), PRODUCE, 0, f"Quota {PRODUCE} must be greater than 0"),
        (Entity("a"), PRODUCE, float("nan"), f"Quota {PRODUCE} must be greater than 0"),
        (Entity("a"), PRODUCE, 1.5, f"{PRODUCE} cannot be a fractional value."),
        (Entity("a"), PRODUCE, 1e19, f"Proposed value for {PRODUCE} is too large for a LONG."),
    ],
)
def test_a_quota_that_cannot_be_is_refused(
    entity: Entity, key: str, value: float, text: str
) -> None:
    with pytest.raises(KafkaError) as refusal:
        check_value(entity, key, value)
    assert (refusal.value.code, refusal.value.message) == (ErrorCode.INVALID_REQUEST, text)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "Invalid empty client quota entity"),
        ([("user", "")], "Empty user not supported"),
        ([("group", "g")], "Unhandled client quota entity type: group"),
        (
            [("user", "a"), ("user", "b")],
            "Invalid client quota entity, duplicate entity entry user",
        ),
    ],
)
def test_an_entity_that_cannot_be_is_refused(
    parts: list[tuple[str, str | None]], text: str
) -> None:
    with pytest.raises(KafkaError) as refusal:
        entity_of(parts)
    assert refusal.value.message == text
    assert entity_of([("user", None), ("client-id", "c")]) == Entity(DEFAULT, "c")


def test_long_client_ids_are_told_apart_but_not_kept() -> None:
    quotas = Quotas(1)
    quotas.configured({Entity(None, DEFAULT): {PRODUCE: 10.0}})
    one, other = ("x" * 30_000 + end for end in "ab")
    bucket = quotas.find(PRODUCE, "u", one, 0.0)
    assert bucket is not None
    bucket.take(10, 0.0)
    assert quotas.find(PRODUCE, "u", one, 0.0) is bucket
    assert quotas.find(PRODUCE, "u", other, 0.0) is not bucket
    kept = [*quotas._buckets, *quotas._found]
    assert all(len(text) < 1000 for place in kept for text in place)


def test_buckets_that_are_all_in_use_are_not_searched_for_each_new_one() -> None:
    quotas = Quotas(1)
    quotas.configured({Entity(None, DEFAULT): {PRODUCE: 10.0}})
    looks = 0

    class Counted(Bucket):
        def is_full(self, now: float) -> bool:
            nonlocal looks
            looks += 1
            return super().is_full(now)

    for number in range(MOST_BUCKETS):
        bucket = quotas._buckets[PRODUCE, "", str(number)] = Counted(10.0, 1, 0.0)
        bucket.take(100, 0.0)
    for number in range(100):
        found = quotas.find(PRODUCE, "u", f"more {number}", 0.0)
        assert found is not None
        found.take(100, 0.0)
    assert looks == MOST_BUCKETS
    assert quotas.find(PRODUCE, "u", "0", 0.0) is quotas._buckets[PRODUCE, "", "0"]
