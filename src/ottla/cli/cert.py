"""`ottla cert`: make certificates to begin with, and see what others have and when they expire."""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.options import json_option
from ottla.cli.output import print_json, print_table

if TYPE_CHECKING:
    from ottla.cli.output import Json
    from ottla.security.dev_certificates import Authority

SECONDS = 10.0
WARN_DAYS = 30
_what = click.argument("what", nargs=-1, required=True, metavar="FILE|HOST:PORT...")


class Found(NamedTuple):
    """One certificate, and where it was."""

    where: str
    subject: str
    names: str
    since: datetime
    until: datetime
    fingerprint: str

    @property
    def days(self) -> int:
        """How many days are left; negative if it has expired."""
        return (self.until - datetime.now(UTC)).days


@click.group("cert")
def command() -> None:
    """Make and inspect TLS certificates.

    \b
    Example:
      ottla cert make broker1 --host broker1.example.com
      ottla cert show broker1.example.com:9092
      ottla cert expiry /etc/ottla/*.pem --days 14
    """


@command.command("make")
@click.argument("name")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Host name or address that it is for; may be repeated. None for a client.",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certs"),
    show_default=True,
    help="Folder for the files; created with mode 0700.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=825, show_default=True)
def make(name: str, hosts: tuple[str, ...], folder: Path, days: int) -> None:
    """Make a private key and a certificate, signed by the authority of the folder.

    The authority (ca.pem, ca-key.pem) is made with the first one. Brokers and clients trust ca.pem;
    anyone with ca-key.pem can issue certificates, so store it elsewhere.

    \b
    Example:
      ottla cert make broker1 --host broker1.example.com --host 10.0.0.5
      ottla cert make alice
    """
    from ottla.config.errors import ConfigError
    from ottla.security.dev_certificates import issue

    if name in ("ca", "ca-key") or "/" in name or name.startswith("."):
        raise click.UsageError(f"{name} cannot be the name of a certificate.")
    path = folder / f"{name}.pem"
    if path.exists():
        raise click.UsageError(f"{path} exists; remove it, or choose another name.")
    try:
        text = issue(_authority(folder), name, hosts, days)
    except ConfigError as problem:
        raise click.ClickException(str(problem)) from None
    _write(path, text)
    click.echo(f"made {path}, valid for {days} days; trusted with {folder / 'ca.pem'}")


def _authority(folder: Path) -> "Authority":
    from ottla.security.dev_certificates import Authority, new_authority

    certificate, key = folder / "ca.pem", folder / "ca-key.pem"
    try:
        if certificate.exists() or key.exists():
            return Authority(certificate.read_text("utf-8"), key.read_text("utf-8"))
        made = new_authority()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(key, made.key)
        _write(certificate, made.certificate)
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from None
    return made


@command.command("show")
@_what
@json_option
def show(what: tuple[str, ...], as_json: bool) -> None:
    """Show the certificates of PEM files or TLS listeners.

    \b
    Example:
      ottla cert show security/broker.pem broker1.example.com:9092
    """
    found = [each for where in what for each in _look(where)]
    if as_json:
        print_json([_document(each) for each in found])
        return
    for number, each in enumerate(found):
        if number:
            click.echo()
        click.echo(f"{each.where}: {each.subject}")
        click.echo(f"  names:   {each.names or '-'}")
        click.echo(f"  valid:   {each.since:%Y-%m-%d %H:%M} to {each.until:%Y-%m-%d %H:%M} UTC")
        click.echo(f"  sha-256: {each.fingerprint}")


@command.command("expiry")
@_what
@click.option(
    "--days",
    type=click.IntRange(min=0),
    default=WARN_DAYS,
    show_default=True,
    help="Exit with status 1 if a certificate expires within this number of days.",
)
@json_option
def expiry(what: tuple[str, ...], days: int, as_json: bool) -> None:
    """List when certificates expire.

    \b
    Example:
      ottla cert expiry security/broker.pem --days 14
    """
    seen = [each for where in what for each in _look(where, keys_too=len(what) > 1)]
    found = sorted(seen, key=lambda each: each.until)
    if as_json:
        print_json([_document(each) for each in found])
    else:
        rows = [(f"{each.until:%Y-%m-%d}", each.days, each.subject, each.where) for each in found]
        print_table(("EXPIRES", "DAYS", "SUBJECT", "WHERE"), rows)
    if any(each.days < days for each in found):
        raise click.exceptions.Exit(1)


def _document(found: Found) -> "Json":
    return {
        "where": found.where,
        "subject": found.subject,
        "names": found.names,
        "valid_from": found.since.isoformat(),
        "valid_until": found.until.isoformat(),
        "days": found.days,
        "sha256": found.fingerprint,
    }


def _look(where: str, *, keys_too: bool = False) -> list[Found]:
    """The certificates of a file or a listener; ClickException.

    With `keys_too` a file with nothing but a private key has none: `*.pem` may bring it.
    """
    from hashlib import sha256

    from ottla.config.errors import ConfigError
    from ottla.security.tls_context import pem_certificates
    from ottla.security.x509 import host_names, parse_certificate

    try:
        host, _, port = where.rpartition(":")
        if Path(where).exists() or not port.isdigit():
            text = Path(where).read_text("utf-8")
            ders = list(pem_certificates(text))
            if not ders and keys_too and "PRIVATE KEY-----" in text:
                return []
        else:
            ders = [_served(host.strip("[]"), int(port))]
        read = [(each, parse_certificate(each)) for each in ders]
    except (ConfigError, ValueError, OSError) as problem:
        said = getattr(problem, "strerror", None) or str(problem)
        if isinstance(problem, UnicodeDecodeError):
            said = "it is not a PEM file"
        raise click.ClickException(f"{where}: {said}") from None
    if not read:
        raise click.ClickException(f"{where}: it has no certificate (BEGIN CERTIFICATE)")
    return [
        Found(
            where,
            known.subject,
            ", ".join(host_names(known)),
            known.not_before,
            known.not_after,
            sha256(data).hexdigest(),
        )
        for data, known in read
    ]


def _served(host: str, port: int) -> bytes:
    """What a listener shows; whether it is to be trusted is not the question."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host or None) as tls,
        ):
            return tls.getpeercert(binary_form=True) or b""
    except ssl.SSLError as problem:
        reason = (problem.reason or "unknown").lower().replace("_", " ")
        raise ValueError(f"no TLS listener: {reason}") from None


def _write(path: Path, text: str) -> None:
    """Make a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
