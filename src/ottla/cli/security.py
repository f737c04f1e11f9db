"""`ottla security init`: what a broker with TLS, logins and an authorizer needs, to begin with."""

import os
import secrets
import socket
from pathlib import Path

import click

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@click.group("security")
def command() -> None:
    """Set up TLS, authentication and authorization.

    \b
    Example:
      ottla security init --dir security --host broker1.example.com
    """


@command.command("init")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("security"),
    show_default=True,
    help="Folder for the files; created with mode 0700.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    help="Host name or address that clients connect to; may be repeated.  [default: this machine's "
    "name, localhost and the loopback addresses]",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=9092,
    show_default=True,
    help="Port of the listener.",
)
@click.option(
    "--cert",
    "keystore",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A PEM file with a private key and its certificate chain, instead of new ones.",
)
def init(folder: Path, hosts: tuple[str, ...], port: int, keystore: Path | None) -> None:
    """Write settings for a secure broker and its admin, with a new certificate.

    The listener is SASL_SSL on all interfaces. The user admin is a super user and logs in with
    PLAIN and a random password. Add other users with `ottla user add`.

    \b
    Example:
      ottla security init --dir security --host broker1.example.com
      ottla serve --config security/server.properties
    """
    from ottla.config.errors import ConfigError
    from ottla.security.dev_certificates import make_certificates

    named = ("server.properties", "client.properties", "broker.pem", "ca.pem")
    for name in named:
        if (folder / name).exists():
            raise click.UsageError(f"{folder / name} exists; choose another folder with --dir.")
    known = hosts or tuple(dict.fromkeys((socket.gethostname(), "localhost", "127.0.0.1", "::1")))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = folder.resolve()
    trust = ""
    own = keystore.resolve() if keystore is not None else folder / "broker.pem"
    if keystore is None:
        try:
            made = make_certificates(known)
        except ConfigError as problem:
            raise click.ClickException(str(problem)) from None
        _write(folder / "broker.pem", made.broker)
        _write(folder / "ca.pem", made.authority)
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={folder / 'ca.pem'}\n"
    password = secrets.token_urlsafe(24)
    login = f'{MODULE} required username="admin" password="{password}"'
    _write(folder / "server.properties", _SERVER.format(
        port=port, own=own, trust=trust, login=f'{login} user_admin="{password}"', host=known[0],
    ))  # fmt: skip
    _write(folder / "client.properties", _CLIENT.format(trust=trust, login=login))
    print(f"Wrote {folder}: {', '.join(n for n in named if (folder / n).exists())}")
    print(f"Start:   ottla serve --config {folder / 'server.properties'}")
    print(f"Connect: ottla topic list --bootstrap {known[0]}:{port} "
          f"--command-config {folder / 'client.properties'}")  # fmt: skip


_SERVER = """\
# A broker that other machines may reach: TLS, logins, and ACLs. Keep this file secret.
listeners=SASL_SSL://:{port}
advertised.listeners=SASL_SSL://{host}:{port}
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={login};
ssl.keystore.type=PEM
ssl.keystore.location={own}
{trust}authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin
"""
_CLIENT = """\
# Kafka's client settings for the user admin. Keep this file secret.
security.protocol=SASL_SSL
{trust}sasl.mechanism=PLAIN
sasl.jaas.config={login};
"""


def _write(path: Path, text: str) -> None:
    """Make a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
