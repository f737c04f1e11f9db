"""The coordinator answers as Apache Kafka 4.3.0 did: see `transcript`."""

import json
from typing import TypedDict

import pytest
from msgspec.structs import replace

from ottla.coordinator.transactions.records import read_record, record_of
from ottla.coordinator.transactions.state import Transaction

from .driver import Driver
from .transcript import TRANSCRIPT, Answer, Play, Step


class Script(TypedDict):
    """What was asked of Kafka, and what it answered."""

    name: str
    steps: list[tuple[Step, Answer]]


SCRIPTS: list[Script] = json.loads(TRANSCRIPT.read_text())


class Ottla(Driver):
    """A shard on which scripts can be played."""

    def raise_epoch(self, transactional_id: str, timeout_ms: int, epoch: int) -> None:
        """As all these InitProducerIds would have left it."""
        assert timeout_ms
        said = read_record(self.log[-1])
        assert said is not None
        assert isinstance(said.transaction, Transaction)
        assert said.transactional_id == transactional_id
        record = record_of(replace(said.transaction, producer_epoch=epoch))
        self.log.append(record)
        self.shard.replay(record)

    def settle(self, transactional_id: str) -> None:
        """Nobody else has markers to be written."""
        assert all(markers.transactional_id == transactional_id for markers in self.markers)
        self.write_markers()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script["name"])
def test_the_answers_are_those_of_kafka(script: Script) -> None:
    play = Play(Ottla(), "transactional-id")
    for number, (step, answer) in enumerate(script["steps"]):
        assert [number, step, play.step(step)] == [number, step, answer]
