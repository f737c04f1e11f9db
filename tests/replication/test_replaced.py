"""A leader that is partitioned from ZooKeeper only is replaced, and must find out."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.cluster import ClusterProcesses
from testkit.process import BrokerProcess
from testkit.proxy import Gate, Gates, Mode
from testkit.raw import ClosedError
from testkit.waiting import stretched, until
from testkit.zookeeper_servers import Ensemble, running_ensemble

from .writing import Writer

SESSION_SECONDS = 3.0
SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
}
PATIENCE_SECONDS = SESSION_SECONDS + 7
FOUND_WITHIN_SECONDS = 20.0
"""It takes one, and longer on a busy machine; a client that is not sent away waits for a minute."""
NOBODY = -1


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running_ensemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def gates(zookeeper: Ensemble) -> Iterator[list[Gate]]:
    """The way of each broker to ZooKeeper."""
    with Gates() as gates:
        yield [gates.gate(zookeeper.servers[0].port) for _ in range(3)]


@pytest.fixture(scope="module")
def cluster(
    gates: list[Gate], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    def own_way(number: int) -> dict[str, str]:
        return {"ottla.store": f"zookeeper://127.0.0.1:{gates[number].port}/replaced"}

    folder = tmp_path_factory.mktemp("cluster")
    with ClusterProcesses(folder, settings=SETTINGS, store="zookeeper://", each=own_way) as cluster:
        yield cluster


@pytest.mark.parametrize("mode", [Mode.REFUSING, Mode.SILENT])
def test_writers_find_the_new_leader_while_the_old_one_is_partitioned(
    cluster: ClusterProcesses, gates: list[Gate], mode: Mode
) -> None:
    topic = cluster.create(f"replaced-{mode.value}", min_insync_replicas="2")
    writer = Writer(cluster)
    writer.write(topic, 10)
    writer.flush()
    number = cluster.partition(topic).leader_id
    new = cluster.brokers[(number + 1) % 3]
    gates[number].set(mode)
    try:
        until(
            lambda: cluster.partition(topic, of=new).leader_id not in (NOBODY, number),
            "another one leads",
            PATIENCE_SECONDS,
        )
        began = time.monotonic()
        writer.write(topic, 10)
        writer.flush()
        assert time.monotonic() - began < stretched(FOUND_WITHIN_SECONDS)
        assert not writer.failed
        until(lambda: not answers(cluster, number), "the old one sends clients away")
    finally:
        gates[number].set(Mode.OPEN)
    until(lambda: answers(cluster, number), "it serves clients again")
    cluster.until_in_sync(topic)


def answers(cluster: ClusterProcesses, number: int) -> bool:
    """Whether a broker talks to clients."""
    try:
        cluster.metadata("", of=cluster.brokers[number])
    except (OSError, ClosedError):
        return False
    return True


def test_a_broker_whose_id_was_taken_while_it_was_disconnected_stops(
    zookeeper: Ensemble, tmp_path: Path
) -> None:
    with Gates() as gates:
        gate = gates.gate(zookeeper.servers[0].port)

        def broker(name: str, port: int) -> BrokerProcess:
            store = f"zookeeper://127.0.0.1:{port}/taken"
            return BrokerProcess(tmp_path / name, {**SETTINGS, "ottla.store": store})

        with broker("first", gate.port) as first:
            gate.set(Mode.SILENT)
            # It waits for the first one's session to end, as every broker does at its start.
            with broker("second", zookeeper.servers[0].port) as second:
                gate.set(Mode.OPEN)
                until(lambda: not first.is_running, "the first one ends", PATIENCE_SECONDS * 2)
                assert first.stop() == 1
                assert first.last_words().endswith(
                    "ottla: another broker is registered with id 1; set a different node.id (--id)"
                )
                assert second.answers()
