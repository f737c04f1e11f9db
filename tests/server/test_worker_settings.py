"""The settings of brokers that one machine runs together."""

import pytest

from ottla.config import ConfigError
from ottla.server.workers import left_out, worker_settings

STATIC = {"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/data", "node.id": "4"}


def test_each_worker_has_an_id_a_port_and_a_folder_of_its_own() -> None:
    first, third = worker_settings(STATIC, 0), worker_settings(STATIC, 2)
    assert (first["node.id"], third["node.id"]) == ("4", "6")
    assert first["listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert third["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert third["log.dirs"] == "/data/broker-6"
    assert first["ottla.store"] == third["ottla.store"] == "sqlite:/data/cluster.sqlite"


def test_a_free_port_stays_free() -> None:
    static = STATIC | {"listeners": "PLAINTEXT://[::1]:0", "ottla.metrics.port": "0"}
    assert worker_settings(static, 3)["listeners"] == "PLAINTEXT://[::1]:0"
    assert worker_settings(static, 3)["ottla.metrics.port"] == "0"


def test_folders_of_brokers_that_are_not_started_are_found() -> None:
    names = ["broker-1", "broker-3", "broker-12", "broker-x", "broker-", "lost+found"]
    assert left_out(names, [1, 2]) == [3, 12]
    assert left_out(names, [1, 3, 12]) == []


def test_advertised_and_metrics_ports_move_too() -> None:
    static = STATIC | {
        "advertised.listeners": "PLAINTEXT://broker.example:19092",
        "ottla.metrics.port": "9300",
    }
    settings = worker_settings(static, 1)
    assert settings["advertised.listeners"] == "PLAINTEXT://broker.example:19093"
    assert settings["ottla.metrics.port"] == "9301"


def test_workers_have_no_other_store() -> None:
    with pytest.raises(ConfigError, match=r"do not set ottla\.store"):
        worker_settings(STATIC | {"ottla.store": "sqlite:/elsewhere"}, 0)
