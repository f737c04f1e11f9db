"""`ottla serve` behind TLS and logins, and what it refuses to be."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.client import Client, ClientSettings
from ottla.client.admin import Admin
from ottla.client.security import client_security
from ottla.wire.errors import KafkaError
from testkit.certificates import PLAIN_MODULE, Certificates, plain_users
from testkit.process import plain_environment
from testkit.server import free_port
from testkit.waiting import stretched, until

SECONDS = 90.0


def serve(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(Path(sys.executable).with_name("ottla")), "serve", *arguments],
        cwd=folder,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("wb"),
        start_new_session=True,
    )


def test_workers_replicate_over_sasl_ssl_and_run_no_module_of_the_folder(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    (tmp_path / "json.py").write_text("open('pwned', 'w').close()\nraise SystemExit(9)\n")
    port = free_port(3)
    secret = tmp_path / "secrets"
    secret.write_text(f"jaas={plain_users(alice='pw').replace(chr(92), chr(92) * 2)}\n")
    settings = {
        **certificates.broker_config(),
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"${{file:{secret}:jaas}}",
        "log.dirs": str(tmp_path / "data"),
    }
    # Workers know each other by their own certificate, without a truststore.
    del settings["ssl.truststore.location"]
    (tmp_path / "server.properties").write_text(
        "".join(f"{name}={text}\n" for name, text in settings.items())
    )
    process = serve(tmp_path, "--config", "server.properties", "--workers", "3")
    try:
        security = client_security(
            {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(certificates.ca),
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN_MODULE} required username="alice" password="pw";',
            }
        )
        servers = ",".join(f"127.0.0.1:{port + number}" for number in range(3))
        client = Client(ClientSettings(bootstrap_servers=servers, security=security))
        made: list[str] = []

        def all_in_sync() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                if not made:
                    Admin(client).create_topic("t", partitions=1, replication_factor=3)
                    made.append("t")
                (topic,) = client.metadata(made).topics
            except KafkaError:
                return False
            return bool(topic.partitions) and len(topic.partitions[0].isr_nodes) == 3

        until(all_in_sync, "all workers are in sync", SECONDS)
        client.close()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(stretched(30))
    log = (tmp_path / "log").read_text()
    assert not (tmp_path / "pwned").exists()
    assert "Traceback" not in log
    assert "authentication failed" not in log


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--host", "0.0.0.0", "--port", "0"), 2, "or allow it with --insecure"),
        (("--set", "listeners=PLAINTEXT://:0"), 2, "does not authenticate its clients"),
        (("--client-ca", "ca.pem"), 2, "--client-ca needs --tls"),
        (("--tls", "ca.pem", "ca.pem", "--port", "0"), 2, "It has no private key"),
        (("--tls", "ca.pem", "open.pem", "--port", "0"), 2, "chmod 600"),
        (("--set", "listeners=SSL://127.0.0.1:0"), 2, "ssl.keystore.location is not set"),
        (("--set", "listeners=SASL_SSL://127.0.0.1:0"), 2, "SASL mechanism"),
        (("--set", "ssl.provider=x"), 2, "extension point of Java"),
        (("--set", "sasl.jaas.config=${env:NOPE}"), 2, "environment variable NOPE is not set"),
        (("--set", "hunter2 with blanks"), 2, "--set [hidden]: must be name=value"),
    ],
)  # fmt: skip
def test_what_cannot_be_secure_is_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    certificates = Certificates(tmp_path)
    (tmp_path / "open.pem").write_bytes(certificates.broker.read_bytes())
    (tmp_path / "open.pem").chmod(0o644)
    process = serve(tmp_path, *arguments)
    assert process.wait(stretched(60)) == status
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert said in line
    assert "hunter2" not in line


def test_serve_with_a_certificate_and_its_key_and_commands_with_a_file(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    text = certificates.broker.read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    (tmp_path / "key.pem").write_text(text[:at])
    (tmp_path / "key.pem").chmod(0o600)
    (tmp_path / "cert.pem").write_text(text[at:])
    certificates.issue("client")
    port = free_port()
    process = serve(
        tmp_path, "--port", str(port), "--tls", "cert.pem", "key.pem", "--client-ca", "ca.pem"
    )
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=ca.pem\n"
        "ssl.keystore.type=PEM\nssl.keystore.location=client.pem\nssl.key.password=x\n"
    )

    config.chmod(0o644)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("ottla")), "topic", "list", "--bootstrap",
             f"127.0.0.1:{port}", *arguments],
            cwd=tmp_path, env=plain_environment(), capture_output=True, text=True,
            timeout=stretched(60),
            check=False,
        )  # fmt: skip

    try:
        said = run("--command-config", "client.properties")
        assert said.returncode == 2
        assert "chmod 600" in said.stderr
        config.chmod(0o600)
        deadline = time.monotonic() + stretched(60)
        while (said := run("--command-config", "client.properties")).returncode:
            assert time.monotonic() < deadline, said.stderr
        assert run().returncode != 0
    finally:
        process.terminate()
        process.wait(stretched(30))
