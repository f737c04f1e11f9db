"""What a producer is told whose earlier batch was refused for the moment."""

import pytest

from compat.batches import Batch
from ottla.broker.refusals import FORGOTTEN_AFTER_MS, Refusals, producer_of
from ottla.wire.errors import ErrorCode

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_what_is_behind_a_refused_batch_hears_the_same(code: ErrorCode) -> None:
    refusals = Refusals()
    assert refusals.told(7, code, now=0) is code
    assert refusals.told(7, OUT_OF_ORDER, now=1) is code
    assert refusals.told(8, OUT_OF_ORDER, now=1) is OUT_OF_ORDER


def test_a_producer_that_is_back_in_order_hears_the_truth_again() -> None:
    refusals = Refusals()
    refusals.told(7, ErrorCode.KAFKA_STORAGE_ERROR, now=0)
    refusals.accepted(7)
    assert not refusals
    assert refusals.told(7, OUT_OF_ORDER, now=1) is OUT_OF_ORDER


def test_a_producer_that_gave_up_a_batch_hears_the_truth_after_a_while() -> None:
    refusals = Refusals()
    refusals.told(7, ErrorCode.KAFKA_STORAGE_ERROR, now=0)
    assert refusals.told(7, OUT_OF_ORDER, now=FORGOTTEN_AFTER_MS) is OUT_OF_ORDER
    assert not refusals


def test_a_producer_without_an_id_is_not_remembered() -> None:
    refusals = Refusals()
    refusals.told(-1, ErrorCode.KAFKA_STORAGE_ERROR, now=0)
    assert not refusals


def test_the_producer_is_read_from_the_header() -> None:
    batch = Batch(producer_id=77, producer_epoch=0, base_sequence=3).build()
    assert producer_of(memoryview(batch)) == 77
    assert producer_of(memoryview(batch[:60])) == -1
    assert producer_of(None) == -1
