"""`ottla cluster move`: a topic is spread over the brokers that are named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.cluster_move import cheapest_plan
from ottla.client.admin import PartitionInfo
from ottla.wire.errors import ErrorCode, KafkaError
from testkit.cluster import ClusterProcesses
from testkit.process import plain_environment
from testkit.waiting import stretched, until

from .writing import Writer, read_all


def partitions(*replicas: list[int]) -> list[PartitionInfo]:
    return [PartitionInfo(index, each[0], 0, each, each, []) for index, each in enumerate(replicas)]


def test_what_is_spread_already_stays() -> None:
    racks = dict.fromkeys((1, 2, 3))
    assert cheapest_plan(partitions([2, 3], [3, 1], [1, 2]), racks, 2) == {}


def test_of_all_ways_the_one_that_copies_least_is_taken() -> None:
    plan = cheapest_plan(partitions([2, 3], [3, 1], [2, 1]), dict.fromkeys((1, 2, 3)), 2)
    assert plan == {2: [1, 2]}, "only the leader changes"


def test_every_broker_that_is_named_gets_its_share_and_no_other_any() -> None:
    plan = cheapest_plan(partitions(*[[1, 2]] * 8), dict.fromkeys((3, 4, 5, 6)), 2)
    assert len(plan) == 8
    assert {broker for replicas in plan.values() for broker in replicas} == {3, 4, 5, 6}
    leaders = [replicas[0] for replicas in plan.values()]
    assert {leaders.count(broker) for broker in (3, 4, 5, 6)} == {2}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        cheapest_plan(partitions([1, 2]), dict.fromkeys((1,)), 2)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def ottla(cluster: ClusterProcesses, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", *arguments, "--bootstrap", cluster.any_alive().bootstrap],
        capture_output=True,
        text=True,
        check=False,
        timeout=stretched(60),
        env=plain_environment(),
    )


def test_a_topic_moves_with_its_records(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, 2) as cluster:
        topic = cluster.create("moved", replicas=1)
        here = cluster.partition(topic).leader_id
        there = 1 - here
        writer = Writer(cluster)
        writer.write(topic, 20)
        writer.flush()
        wrong = ottla(cluster, "cluster", "move", topic, "--brokers", "0,7")
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert "there is no broker 7; there are 0, 1" in wrong.stderr
        wide = cluster.create("wide", replicas=2)
        narrow = ottla(cluster, "cluster", "move", wide, "--brokers", str(there))
        assert (narrow.returncode, narrow.stdout) == (2, "")
        assert "2 replicas need as many brokers, but --brokers has 1" in narrow.stderr
        arguments = ("cluster", "move", topic, "--brokers", str(there), "--json")
        plan = [{"topic": topic, "partition": 0, "replicas": [here], "to": [there]}]
        assert json.loads(ottla(cluster, *arguments, "--dry-run").stdout) == plan
        assert cluster.partition(topic).replica_nodes == [here]
        assert json.loads(ottla(cluster, *arguments).stdout) == plan
        until(lambda: cluster.partition(topic).replica_nodes == [there], "it has moved")
        assert read_all(cluster, topic, 20) == [b"%d" % number for number in range(20)]
        assert json.loads(ottla(cluster, *arguments).stdout) == []
