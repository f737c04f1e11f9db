"""Three brokers as one server of the bench."""

import os
import socket
from pathlib import Path

import click
import pytest

from bench.__main__ import NAMES, chosen_works, main
from bench.clusters import KafkaCluster, OttlaCluster
from testkit import proc
from testkit.server import free_port


def chosen(value: str) -> list[str]:
    context = click.Context(main)
    return chosen_works(context, main.params[0], value)


def test_the_name_of_a_group_stands_for_all_its_works() -> None:
    works = chosen("produce,cluster")
    assert works[0] == "produce"
    assert works[1:] == [name for name in NAMES if name.startswith("cluster-")]
    assert len(works) > 3


def test_without_names_everything_is_chosen_and_a_wrong_name_is_refused() -> None:
    assert chosen("") == NAMES
    with pytest.raises(click.BadParameter, match="clusters is none of"):
        chosen("clusters")


def test_every_node_of_a_kafka_cluster_knows_all_controllers_and_one_cluster(
    tmp_path: Path,
) -> None:
    cluster = KafkaCluster(tmp_path / "first", tmp_path / "libs")
    settings = [node.settings() for node in cluster.nodes]
    assert [each["node.id"] for each in settings] == ["1", "2", "3"]
    (voters,) = {each["controller.quorum.voters"] for each in settings}
    assert [voter.split("@")[0] for voter in voters.split(",")] == ["1", "2", "3"]
    assert len({node.cluster_id for node in cluster.nodes}) == 1
    assert "offsets.topic.replication.factor" not in settings[0]
    assert len(cluster.bootstrap.split(",")) == 3


def test_ottlas_workers_have_neighbouring_ports(tmp_path: Path) -> None:
    cluster = OttlaCluster(tmp_path / "second")
    assert cluster.ports == [cluster.port, cluster.port + 1, cluster.port + 2]
    assert cluster.command()[-2:] == ["--workers", "3"]


def test_ports_that_are_wanted_together_are_free_together() -> None:
    first = free_port(3)
    for port in range(first, first + 3):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_the_process_that_holds_a_folder_is_found_by_its_open_files(tmp_path: Path) -> None:
    (tmp_path / "held").mkdir()
    assert proc.holder(os.getpid(), tmp_path / "held") is None
    with (tmp_path / "held" / "file").open("w"):
        assert proc.holder(os.getpid(), tmp_path / "held") == os.getpid()
        assert proc.holder(os.getpid(), tmp_path / "other") is None
