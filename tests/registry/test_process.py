"""The process: restarts, several registries, the death of the writer, how it is started."""

import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ottla.client import Admin, Client, Producer
from ottla.embedded import Broker
from testkit.process import BrokerProcess, plain_environment
from testkit.server import free_port
from testkit.waiting import stretched, until
from tests.registry.registries import RegistryProcess, Rest

PATHS = (
    "/subjects?deleted=true",
    "/schemas?deleted=true",
    "/config",
    "/config/a",
    "/mode/b",
    "/contexts",
    "/subjects/a/versions",
    "/subjects/a/versions/latest",
    "/schemas/ids/1",
    "/schemas/ids/1/versions",
    "/subjects/part/versions/1/referencedby",
)


def fill(rest: Rest) -> None:
    rest("PUT", "/config/a", {"compatibility": "FULL"})
    rest.register("a", '"int"')
    rest.register("part", '{"type":"record","name":"P","fields":[]}')
    rest.register("a2", '["null","P"]', references=[{"name": "P", "subject": "part", "version": 1}])
    rest.register(":.ctx:a", '"long"')
    rest.register("j", '{"type":"object"}', schemaType="JSON")
    rest.register("p", 'syntax = "proto3"; message M {}', schemaType="PROTOBUF")
    rest.register("soft", '"bytes"')
    rest("DELETE", "/subjects/soft")
    rest.register("hard", '"float"')
    rest("DELETE", "/subjects/hard")
    rest("DELETE", "/subjects/hard?permanent=true")
    rest("PUT", "/mode/b", {"mode": "READONLY"})
    rest("PUT", "/config", {"compatibility": "NONE"})


def answers(rest: Rest) -> list[tuple[int, object]]:
    return [(reply.status, reply.body) for reply in (rest("GET", path) for path in PATHS)]


def test_a_restart_gives_the_same_answers(broker: Broker) -> None:
    options = ("--alone", "--topic", "_schemas_restart")
    with RegistryProcess(broker.bootstrap_servers, *options) as first:
        fill(first.rest())
        before = answers(first.rest())
        next_id = first.rest().register("next", '"double"').body["id"]
        first.rest()("DELETE", "/subjects/next")
    with RegistryProcess(broker.bootstrap_servers, *options) as second:
        after = answers(second.rest())
        assert after[2:] == before[2:]
        assert "next" in json.dumps(after[0])
        assert second.rest().register("next", '"double"').body["id"] == next_id


def test_a_topic_that_confluents_registry_wrote_is_served(broker: Broker) -> None:
    proto = '// kept\nsyntax = "proto3";\n\n\nmessage M {\n    int32 x = 1;\n}\n'
    values: list[tuple[dict[str, object], dict[str, object] | None]] = [
        ({"keytype": "NOOP", "magic": 0}, None),
        (
            {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1},
            {
                "subject": "a",
                "version": 1,
                "id": 3,
                "md5": "x",
                "schema": '"int"',
                "deleted": False,
            },
        ),
        (
            {"keytype": "SCHEMA", "subject": "p", "version": 2, "magic": 1},
            {
                "subject": "p",
                "version": 2,
                "id": 9,
                "guid": "g",
                "schemaType": "PROTOBUF",
                "schema": proto,
                "deleted": False,
            },
        ),
        ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"}),
        ({"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0}, {"subject": "a", "version": 1}),
        ({"keytype": "SOMETHING_NEW", "magic": 0}, {"x": 1}),
    ]
    with Client(broker.bootstrap_servers) as client:
        compacted = {"cleanup.policy": "compact"}
        Admin(client).create_topic("_from_confluent", partitions=1, settings=compacted)
        with Producer(client) as producer:
            for key, value in values:
                data = None if value is None else json.dumps(value).encode()
                producer.send("_from_confluent", data, key=json.dumps(key).encode())
    options = ("--alone", "--topic", "_from_confluent")
    with RegistryProcess(broker.bootstrap_servers, *options) as registry:
        rest = registry.rest()
        assert rest("GET", "/subjects").body == ["p"]
        assert rest("GET", "/subjects?deleted=true").body == ["a", "p"]
        assert rest("GET", "/schemas/ids/9").body["schema"] == proto
        assert rest("GET", "/config").body == {"compatibilityLevel": "FULL"}
        same = 'syntax = "proto3"; message M { int32 x = 1; }'
        assert rest.register("p", same, schemaType="PROTOBUF").body == {"id": 9}
        assert rest("GET", "/subjects/p/versions").body == [2]
        assert rest.register("new", '"string"').body == {"id": 10}


@pytest.fixture
def two(broker: Broker, request: pytest.FixtureRequest) -> Iterator[list[RegistryProcess]]:
    """Two registries of one group, which have elected a writer."""
    name = re.sub(r"\W", "_", request.node.name)
    options = ("--topic", f"_s_{name}", "--group", f"g_{name}")
    with (
        RegistryProcess(broker.bootstrap_servers, *options) as one,
        RegistryProcess(broker.bootstrap_servers, *options) as other,
    ):
        yield [one, other]


def wait_for_subject(rest: Rest, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    until(lambda: rest("GET", path).status == 200, "the other registry has read it")


def test_both_of_two_registries_write_and_read_what_was_written(two: list[RegistryProcess]) -> None:
    one, other = (item.rest() for item in two)
    for number in range(6):
        writer, reader = (one, other) if number % 2 else (other, one)
        subject = f"s{number}"
        found = writer.register(subject, f'{{"type":"fixed","name":"F","size":{number + 1}}}')
        assert found.body == {"id": number + 1}
        assert writer("GET", f"/schemas/ids/{number + 1}").status == 200
        wait_for_subject(reader, subject)
    refused = other.register("s0", '"int"')
    assert refused.code == one.register("s0", '"int"').code == 409
    assert other("PUT", "/config", {"compatibility": "NONE"}).body == {"compatibility": "NONE"}
    assert other("DELETE", "/subjects/s0").body == [1]


@pytest.mark.parametrize("victim", [0, 1])
def test_the_writer_dies_and_the_other_continues(two: list[RegistryProcess], victim: int) -> None:
    ids = [
        item.rest().register(f"s{at}", f'"{kind}"').body["id"]
        for at, (item, kind) in enumerate(zip(two, ("int", "long"), strict=True))
    ]
    assert ids == [1, 2]
    survivor = two[1 - victim].rest()
    two[victim].kill()

    until(lambda: survivor.register("after", '"string"').status == 200, "it writes", 60)
    assert survivor.register("after", '"string"').body == {"id": 3}
    assert survivor("GET", "/subjects").body == ["after", "s0", "s1"]
    assert survivor("GET", "/schemas/ids/1").body == {"schema": '"int"'}


def test_a_topic_that_would_lose_schemas_is_refused(broker: Broker) -> None:
    with Client(broker.bootstrap_servers) as client:
        Admin(client).create_topic("not_compacted", partitions=1)
        Admin(client).create_topic("too_many", partitions=2, settings={"cleanup.policy": "compact"})
    for topic, words in (("not_compacted", "cleanup.policy=delete"), ("too_many", "2 partitions")):
        ran = _run("--bootstrap", broker.bootstrap_servers, "--topic", topic, "--port", "0")
        assert ran.returncode == 1
        assert words in ran.stderr
        assert "Traceback" not in ran.stderr


def test_mistakes_at_the_start_are_one_line(broker: Broker, tmp_path: Path) -> None:
    nowhere = _run("--bootstrap", f"127.0.0.1:{free_port()}", "--port", "0")
    assert nowhere.returncode == 1
    assert "cannot reach a broker" in nowhere.stderr.splitlines()[-1]
    (tmp_path / "users").write_text("bob secret\n")
    users = _run("--users", str(tmp_path / "users"), "--bootstrap", broker.bootstrap_servers)
    assert users.returncode == 1
    assert "line 1" in users.stderr
    taken = _run("--port", str(broker.port), "--bootstrap", broker.bootstrap_servers)
    assert taken.returncode == 1
    assert "cannot listen" in taken.stderr
    for ran in (nowhere, users, taken):
        assert "Traceback" not in ran.stderr


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "registry", *options],
        capture_output=True,
        text=True,
        timeout=stretched(120),
        env=plain_environment(),
        check=False,
    )


class ServingBoth(BrokerProcess):
    """`ottla serve --registry PORT`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {"group.initial.rebalance.delay.ms": "0"})
        self.registry_port = free_port()

    def command(self) -> list[str]:
        return [*super().command(), "--registry", str(self.registry_port)]


def test_serve_runs_a_registry_and_restarts_it(tmp_path: Path) -> None:
    with ServingBoth(tmp_path) as broker:
        rest = Rest(f"http://127.0.0.1:{broker.registry_port}")

        def answered() -> bool:
            try:
                return rest.register("s", '"int"').status == 200
            except OSError:
                return False

        until(answered, "the registry serves", 60)
        children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children")
        found = [
            int(pid)
            for path in children.parents[1].glob("*/children")
            for pid in path.read_text().split()
        ]
        registries = [
            pid for pid in found if b"registry" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        (registry,) = registries
        os.kill(registry, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{registry}").exists(), "it is reaped")
        until(answered, "the registry serves again", 60)
        assert rest("GET", "/subjects").body == ["s"]
        assert broker.stop() == 0
        assert not broker.tracebacks()


def test_an_embedded_registry_ends_with_its_broker() -> None:
    with Broker(registry=True) as broker:
        rest = Rest(broker.registry_url)
        assert rest.register("s", '"int"').body == {"id": 1}
    with pytest.raises(OSError, match="refused"):
        rest("GET", "/subjects")
    with Broker() as plain, pytest.raises(RuntimeError, match="registry=True"):
        _ = plain.registry_url


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of this machine's address, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    found = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(found.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file


def test_two_registries_forward_over_tls(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))  # for the client of this test
    options = ["--topic", "_s_tls", "--group", "g_tls", "--tls-cert", str(cert)]
    options += ["--tls-key", str(key), "--tls-ca", str(cert)]
    with (
        RegistryProcess(broker.bootstrap_servers, *options) as one,
        RegistryProcess(broker.bootstrap_servers, *options) as other,
    ):
        assert one.url.startswith("https://")
        found = [
            item.rest().register(f"s{at}", f'{{"type":"fixed","name":"F","size":{at + 1}}}')
            for at, item in enumerate((one, other))
        ]
        assert [reply.body for reply in found] == [{"id": 1}, {"id": 2}]
    broken = tmp_path / "broken.pem"
    broken.write_text("nonsense")
    ran = _run("--tls-cert", str(broken), "--port", "0", "--bootstrap", broker.bootstrap_servers)
    assert ran.returncode == 1
    assert "cannot use" in ran.stderr
    assert "Traceback" not in ran.stderr
