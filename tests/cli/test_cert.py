"""`ottla cert`: what it makes works as a listener's, and what it shows is so."""

import json
import socket
import ssl
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import command
from ottla.embedded import Broker


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["cert", *arguments])


def test_what_is_made_is_trusted_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    for arguments in (("broker", "--host", "localhost", "--host", "127.0.0.1"), ("alice",)):
        assert run("make", *arguments, "--dir", str(folder)).exit_code == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    config = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }
    with Broker(config=config) as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.load_cert_chain(folder / "alice.pem")
        with (
            socket.create_connection((host, int(port))) as connection,
            context.wrap_socket(connection, server_hostname=host) as tls,
        ):
            assert tls.version() == "TLSv1.3"
        shown = run("show", str(folder / "broker.pem"), broker.bootstrap_servers, "--json")
    assert shown.exit_code == 0, shown.output
    in_file, served = json.loads(shown.stdout)
    assert in_file | {"where": ""} == served | {"where": ""}
    assert (in_file["subject"], in_file["names"]) == ("CN=broker", "localhost, 127.0.0.1")


def test_what_expires_soon_is_a_failure(tmp_path: Path) -> None:
    for name, days in (("soon", "5"), ("later", "500")):
        made = run("make", name, "--days", days, "--dir", str(tmp_path / "certs"))
        assert made.exit_code == 0, made.output
    files = sorted(map(str, (tmp_path / "certs").glob("*.pem")))
    assert any(each.endswith("ca-key.pem") for each in files)  # a key expires never
    found = run("expiry", *files)
    assert found.exit_code == 1
    assert [line.split()[2] for line in found.stdout.splitlines()[2:4]] == ["CN=soon", "CN=later"]
    assert run("expiry", *files, "--days", "4").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("show", "nothing.pem"), "No such file"),
        (("show", "ca-key.pem"), "it has no certificate"),
        (("show", "localhost:1"), "refused"),
        (("show", "broken.pem"), "malformed certificate"),
        (("show", "binary"), "it is not a PEM file"),
        (("make", "../x"), "cannot be the name"),
        (("make", "ca"), "cannot be the name"),
        (("make", "again", "--dir", "."), "exists"),
        (("make", "new", "--dir", ".", "--host", "ümlaut"), "cannot be a host"),
    ],
)
def test_mistakes_are_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("make", "again", "--dir", ".").exit_code == 0
    (tmp_path / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAA\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    found = run(*arguments)
    assert found.exit_code != 0
    assert why in found.output, found.output
    assert not (tmp_path / "new.pem").exists()
