import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from ottla.client import Admin, Client
from ottla.client.admin import Resource
from ottla.wire.config_resource_type import ConfigResourceType

from .conftest import Ottla


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--set", "num.partitons=1"), r"did you mean num\.partitions\?"),
        (("--set", "num.partitions=x"), "Invalid value x for configuration num.partitions"),
        (("--set", "num.partitions"), "must be name=value"),
        (("--set", "=3"), r"--set =\[hidden\]: the name is missing; use name=value, like num\."),
        (("--port", "70000"), "70000 is not in the range"),
        (("--port", "1", "--set", "listeners=PLAINTEXT://:2"), "listeners is set twice"),
        (("--config", "/nonexistent/file"), "does not exist"),
        (("--set", "listeners=SSL://127.0.0.1:0"), r"ssl\.keystore\.location is not set"),
    ],
)
def test_a_wrong_setting_is_one_line_and_status_2(
    offline: Ottla, tmp_path: Path, flags: tuple[str, ...], complaint: str
) -> None:
    ran = offline("serve", "--data", str(tmp_path / "data"), *flags)
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert re.search(complaint, ran.err)


def test_a_file_of_settings_may_be_wrong_too(offline: Ottla, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# comment\nnum.partitions=0\n")
    ran = offline("serve", "--config", str(file))
    assert ran.status == 2
    assert f"{file}:2: Invalid value 0 for configuration num.partitions" in ran.err
    file.write_bytes(b"\xff\xfe")
    assert "is not a text file" in offline("serve", "--config", str(file)).err


def test_a_taken_metrics_port_is_one_line_and_no_broker_is_started(
    offline: Ottla, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        data = tmp_path / "data"
        flags = ("--port", "0", "--data", str(data), "--set", f"ottla.metrics.port={port}")
        ran = offline("serve", *flags)
    assert ran.status == 1
    problem = f"cannot serve metrics on 127.0.0.1:{port}: address already in use"
    assert ran.err == f"ottla: {problem}\n"
    assert not data.exists()


@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
def test_a_taken_port_is_one_line_and_no_data_folder_is_made(
    offline: Ottla, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ran = offline("serve", "--port", str(port), "--data", str(data), *flags)
    assert ran.status == 1
    problem = f"cannot listen on 127.0.0.1:{port}: address already in use"
    assert ran.err == f"ottla: {problem}\n"
    assert not data.exists()


def test_the_taken_port_of_a_later_worker_is_found_before_a_folder_is_made(
    offline: Ottla, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = ("--port", str(port - 1), "--data", str(data), "--workers", "2")
        ran = offline("serve", *words)
    assert ran.status == 1
    assert "address already in use" in ran.err
    assert not data.exists()


@pytest.mark.parametrize(
    ("file", "flags", "problem"),
    [
        ("cluster.sqlite", (), "is the data folder of --workers"),
        ("metadata.sqlite", ("--workers", "2"), "is the data folder of a single broker"),
    ],
)
def test_one_broker_and_workers_refuse_each_others_folder(
    offline: Ottla, tmp_path: Path, file: str, flags: tuple[str, ...], problem: str
) -> None:
    (tmp_path / file).touch()
    ran = offline("serve", "--port", "0", "--data", str(tmp_path), *flags)
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    assert f"{tmp_path} {problem} (it has {file})" in ran.err


def test_a_store_without_a_file_is_one_line(offline: Ottla, tmp_path: Path) -> None:
    ran = offline("serve", "--port", "0", "--data", str(tmp_path), "--store", "sqlite:")
    assert ran.status == 1
    assert ran.err == (
        "ottla: ottla.store=sqlite: has no file name; use sqlite:PATH, "
        "like sqlite:/var/lib/ottla/cluster.sqlite\n"
    )


def test_workers_past_the_last_port_are_one_line(offline: Ottla, tmp_path: Path) -> None:
    ran = offline("serve", "--data", str(tmp_path), "--port", "65534", "--workers", "3")
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert "65536" in ran.err


def test_a_free_port_for_metrics_is_reported(tmp_path: Path) -> None:
    flags = ["--port", "0", "--data", str(tmp_path), "--set", "ottla.metrics.port=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "serve", *flags], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        lines = map(json.loads, process.stderr)
        told = next(line for line in lines if line["event"] == "metrics endpoint started")
        with urlopen(f"http://{told['host']}:{told['port']}/healthz") as reply:
            assert reply.read() == b"ok\n"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0


def test_flags_are_stronger_than_the_environment_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours=2\nmessage.max.bytes=2000\n")
    environment = {
        **os.environ,
        "OTTLA_BOOTSTRAP": "not.for.the.broker:1",
        "OTTLA_NUM_PARTITIONS": "3",
        "OTTLA_LOG_RETENTION_HOURS": "3",
    }
    data = tmp_path / "data"
    flags = ["--port", "0", "--data", str(data), "--config", str(file), "--set", "num.partitions=4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "serve", *flags],
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stderr is not None
    try:
        started = json.loads(process.stderr.readline())
        address = re.search(r"//(.*)", started["listeners"])
        assert address is not None
        with Client(address[1]) as client:
            settings = Admin(client).describe_settings(Resource(ConfigResourceType.BROKER, "1"))
            values = {item.name: item.value for item in settings}
        assert values["num.partitions"] == "4"
        assert values["log.retention.hours"] == "3"
        assert values["message.max.bytes"] == "2000"
        assert values["log.dirs"] == str(data)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0
