"""Errors for a producer whose earlier batch was rejected with a retriable error."""

import pytest

from ottla.broker.replicas import rejected_batches as refusals_module
from ottla.broker.replicas.rejected_batches import (
    FORGOTTEN_AFTER_MS,
    NOBODY,
    PASSING,
    RejectedBatches,
    Sent,
    sent_by,
)
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.batches import Batch

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FULL = ErrorCode.KAFKA_STORAGE_ERROR
HERE = ("t", 0)
ELSEWHERE = ("t", 1)
NOBODY_KNOWN: set[int] = set()


def batch(sequence: int, producer: int = 7, epoch: int = 0) -> memoryview:
    return memoryview(
        Batch(producer_id=producer, producer_epoch=epoch, base_sequence=sequence).build()
    )


@pytest.mark.parametrize("code", sorted(PASSING))
def test_what_is_behind_a_refused_batch_hears_the_same(code: ErrorCode) -> None:
    refusals = RejectedBatches()
    assert refusals.error_for(HERE, batch(3), code, now=0) is code
    assert refusals.error_for(HERE, batch(4), OUT_OF_ORDER, now=1) is code
    assert refusals.error_for(HERE, batch(4, producer=8), OUT_OF_ORDER, now=1) is OUT_OF_ORDER
    assert refusals.error_for(ELSEWHERE, batch(4), OUT_OF_ORDER, now=1) is OUT_OF_ORDER


def test_what_is_not_behind_it_hears_the_truth() -> None:
    refusals = RejectedBatches()
    refusals.error_for(HERE, batch(3), FULL, now=0)
    assert refusals.error_for(HERE, batch(2), OUT_OF_ORDER, now=1) is OUT_OF_ORDER
    refusals.error_for(HERE, batch(3), FULL, now=0)
    assert refusals.error_for(HERE, batch(4, epoch=1), OUT_OF_ORDER, now=1) is OUT_OF_ORDER


def test_a_batch_of_an_unknown_producer_does_not_go_before_the_one_that_was_refused() -> None:
    refusals = RejectedBatches()
    refusals.error_for(HERE, batch(0), FULL, now=0)
    with pytest.raises(KafkaError) as refused:
        refusals.check(HERE, batch(1), NOBODY_KNOWN, now=1)
    assert refusals.error_for(HERE, batch(1), refused.value.code, now=1) is FULL
    refusals.check(HERE, batch(0), NOBODY_KNOWN, now=1)
    refusals.check(HERE, batch(1, epoch=1), NOBODY_KNOWN, now=1)
    refusals.check(HERE, batch(1, producer=8), NOBODY_KNOWN, now=1)
    refusals.check(ELSEWHERE, batch(1), NOBODY_KNOWN, now=1)
    refusals.check(HERE, batch(1), {7}, now=1)


def test_a_producer_that_is_back_in_order_hears_the_truth_again() -> None:
    refusals = RejectedBatches()
    refusals.error_for(HERE, batch(3), FULL, now=0)
    refusals.accepted(HERE, batch(3))
    assert not refusals
    assert refusals.error_for(HERE, batch(5), OUT_OF_ORDER, now=1) is OUT_OF_ORDER


def test_a_producer_that_gave_up_a_batch_hears_the_truth_after_a_while() -> None:
    refusals = RejectedBatches()
    refusals.error_for(HERE, batch(3), FULL, now=0)
    refusals.error_for(HERE, batch(4), FULL, now=FORGOTTEN_AFTER_MS - 1)
    refusals.check(HERE, batch(5), NOBODY_KNOWN, now=FORGOTTEN_AFTER_MS)
    assert refusals.error_for(HERE, batch(5), OUT_OF_ORDER, now=FORGOTTEN_AFTER_MS) is OUT_OF_ORDER
    assert not refusals


def test_a_producer_without_an_id_is_not_remembered() -> None:
    refusals = RejectedBatches()
    refusals.error_for(HERE, batch(-1, producer=-1), FULL, now=0)
    assert not refusals


def test_only_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals_module, "REMEMBERED", 2)
    refusals = RejectedBatches()
    for producer in (1, 2, 1, 3):
        refusals.error_for(HERE, batch(0, producer), FULL, now=0)
    told = [
        refusals.error_for(HERE, batch(1, producer), OUT_OF_ORDER, now=1) for producer in (1, 2, 3)
    ]
    assert told == [FULL, OUT_OF_ORDER, FULL]
    refusals.error_for(HERE, batch(0, producer=4), FULL, now=FORGOTTEN_AFTER_MS)
    assert len(refusals) == 1


def test_the_producer_is_read_from_the_header() -> None:
    records = batch(3, producer=77, epoch=5)
    assert sent_by(records) == Sent(77, 5, 3)
    assert sent_by(records[:60]) is NOBODY
    assert sent_by(None) is NOBODY
