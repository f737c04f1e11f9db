"""The section `differential` of the compat run: both brokers started, each family a check."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from compat.checks import Check
from compat.differential.classic_groups import ClassicGroups
from compat.differential.consumer_groups import ConsumerGroups
from compat.differential.driver import Driver, Outcome
from compat.differential.produces import Produces
from compat.differential.reads import Reads
from compat.differential.side import Side
from compat.differential.steps import Family
from compat.differential.transactions import Transactions
from testkit import java_runtime
from testkit.kafka import Kafka
from testkit.process import BrokerProcess

SECTION = "differential"
FAMILIES: dict[str, type[Family]] = {
    "reads": Reads,
    "produces": Produces,
    "transactions": Transactions,
    "classic-groups": ClassicGroups,
    "consumer-groups": ConsumerGroups,
}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.retention.check.interval.ms": "86400000",
}
"""One coordinator, so that a request behind others finds them done; nothing that takes its time."""


class _Kafka(Kafka):
    """Apache Kafka with the settings that both brokers get."""

    def settings(self) -> dict[str, str]:
        return super().settings() | SETTINGS


@contextmanager
def brokers() -> Iterator[tuple[Side, Side]]:
    """Ottla and Kafka, running."""
    with (
        TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "ottla", SETTINGS) as broker,
        _Kafka(Path(folder) / "kafka", java_runtime.libs()) as kafka,
    ):
        kafka.start()
        ottla_side = Side("Ottla", broker.bootstrap)
        kafka_side = Side("Kafka", kafka.bootstrap)
        try:
            yield ottla_side, kafka_side
        finally:
            ottla_side.close()
            kafka_side.close()


def check(name: str, steps: int, seed: int) -> Check:
    """The check of one family."""

    def report(outcome: Outcome) -> None:
        print(f"  {outcome.steps:,} steps, {outcome.rounds} rounds")

    def run(_: BrokerProcess) -> str:
        with brokers() as (ottla, kafka):
            outcome = Driver(ottla, kafka, FAMILIES[name], seed).run(steps, report)
        explained = sum(outcome.explained.values())
        return f"{outcome.steps:,} steps in {outcome.rounds} rounds, {explained} known differences"

    return Check(SECTION, f"{name} beside Apache Kafka, {steps:,} steps", run)
