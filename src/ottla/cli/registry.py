"""`ottla registry`: a schema registry until it is stopped."""

import asyncio
import sys
from pathlib import Path

import click

from ottla.cli.options import bootstrap_option, command_security

DEFAULT_PORT = 8081
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("registry")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 selects a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--topic", default="_schemas", show_default=True, help="Topic of the schemas.")
@click.option(
    "--group",
    default="schema-registry",
    show_default=True,
    help="Group in which several registries elect the one that writes.",
)
@click.option(
    "--advertised-host",
    metavar="HOST",
    help="Host name at which other registries reach this one.  [default: --host]",
)
@click.option(
    "--alone",
    is_flag=True,
    help="Write without an election. Only where no other registry uses the topic.",
)
@click.option(
    "--users",
    "users_file",
    type=_file,
    metavar="FILE",
    help="Require basic authentication. A line is: NAME HASH [read:PATTERN] [write:PATTERN] ...",
)
@click.option("--hash-password", is_flag=True, help="Read a password, print its hash, and exit.")
@click.option("--tls-cert", type=_file, metavar="FILE", help="Serve HTTPS with this certificate.")
@click.option("--tls-key", type=_file, metavar="FILE", help="Private key of the certificate.")
@click.option(
    "--tls-ca",
    type=_file,
    metavar="FILE",
    help="CA certificates to verify other registries with.  [default: the system's]",
)
@click.option(
    "--check-timeout",
    type=click.FloatRange(0.1, 600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Refuse a schema that cannot be checked within this time.",
)
@click.option("--supervised", is_flag=True, hidden=True)
@click.option("--login-on-stdin", is_flag=True, hidden=True)
@bootstrap_option
def command(
    port: int,
    host: str,
    topic: str,
    group: str,
    advertised_host: str | None,
    alone: bool,
    users_file: Path | None,
    hash_password: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    check_timeout: float,
    supervised: bool,
    login_on_stdin: bool,
    bootstrap: str,
) -> int:
    """Run a schema registry with Confluent's REST interface until SIGTERM or Ctrl-C.

    Schemas are kept in a compacted topic of the cluster, Ottla or Apache Kafka. Several registries
    on one cluster elect one that writes; the others forward writes to it.

    \b
    Examples:
      ottla registry --bootstrap kafka1:9092 --host 0.0.0.0
      ottla registry --users registry.users --tls-cert cert.pem --tls-key key.pem
      echo secret | ottla registry --hash-password
    """
    if hash_password:
        from ottla.registry import security

        click.echo(security.hash_password(sys.stdin.readline().rstrip("\n")))
        return 0
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key needs --tls-cert.")
    try:
        import uvloop

        from ottla.registry.child import login_from
        from ottla.registry.run import RegistryListenError, RegistrySettings, run_registry
        from ottla.registry.security import UsersError
        from ottla.registry.store import SchemaStoreError
    except ModuleNotFoundError as missing:
        from ottla.extras import install_command

        raise click.ClickException(
            f"the registry needs {missing.name}; install it with: {install_command('registry')}"
        ) from None
    from ottla.server.logging import configure_logging

    configure_logging()
    settings = RegistrySettings(
        bootstrap_servers=bootstrap,
        host=host,
        port=port,
        topic=topic,
        group=group,
        advertised_host=advertised_host,
        alone=alone,
        users_file=users_file,
        certificate=tls_cert,
        private_key=tls_key,
        ca_file=tls_ca,
        time_limit=check_timeout,
        supervised=supervised,
        security=login_from(sys.stdin) if login_on_stdin else command_security(),
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_registry(settings))
    except (RegistryListenError, SchemaStoreError, UsersError) as problem:
        print(f"ottla: {problem}", file=sys.stderr)
        return 1
    return 0
