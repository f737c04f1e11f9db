"""`ottla console`: a web interface for a cluster, until it is stopped; and its users."""

import asyncio
import sys
from pathlib import Path

import click

from ottla.cli.options import bootstrap_option, command_security


@click.group("console", invoke_without_command=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 selects a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A host name by which browsers reach the console. May be repeated.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("ottla-console"),
    show_default=True,
    help="Folder for the history of throughput and lag (24 hours).",
)
@click.option("--read-only", is_flag=True, help="Leave out everything that changes something.")
@click.option("--hide-values", is_flag=True, help="Do not show keys, values and headers.")
@click.option(
    "--registry",
    "registry_url",
    metavar="URL",
    help="Schema registry to decode Avro, Protobuf and JSON Schema with.",
)
@click.option(
    "--users",
    "users_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Require a login of a user in this file (see: ottla console user add).",
)
@click.option(
    "--login",
    type=click.Choice(["sasl"]),
    help="Require a login with the brokers' own SASL users; their ACLs decide.",
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Serve HTTPS with this certificate chain (PEM).",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Its private key, if not in the same file.",
)
@click.option("--supervised", is_flag=True, hidden=True)
@bootstrap_option
@click.pass_context
def command(
    ctx: click.Context,
    port: int,
    host: str,
    allowed_hosts: tuple[str, ...],
    data: Path,
    read_only: bool,
    hide_values: bool,
    registry_url: str | None,
    users_file: Path | None,
    login: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    supervised: bool,
    bootstrap: str,
) -> int:
    """Run a web console for a cluster, Ottla or Apache Kafka, until SIGTERM or Ctrl-C.

    On loopback no login is needed. Any other address needs --users or --login sasl.

    \b
    Examples:
      ottla console
      ottla console --bootstrap kafka1:9092 --read-only
      ottla console user add alice --users console.users
      ottla console --host 0.0.0.0 --users console.users --tls-cert cert.pem --tls-key key.pem
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key needs --tls-cert.")
    if users_file is not None and login is not None:
        raise click.UsageError("give either --users or --login.")
    try:
        import uvloop

        from ottla.console.run import ConsoleError, run_console
        from ottla.console.settings import ConsoleSettings, Login
        from ottla.console.users import ConsoleUsersError
        from ottla.registry.decoding import RegistryUnreachable
    except ModuleNotFoundError as missing:
        from ottla.extras import install_command

        raise click.ClickException(
            f"the console needs {missing.name}; install it with: {install_command('console')}"
        ) from None
    from ottla.server.logging import configure_logging

    configure_logging()
    settings = ConsoleSettings(
        bootstrap_servers=bootstrap,
        security=command_security(),
        host=host,
        port=port,
        allowed_hosts=allowed_hosts,
        login=Login.USERS if users_file else Login.SASL if login else Login.NONE,
        users_file=users_file,
        read_only=read_only,
        hide_values=hide_values,
        registry_url=registry_url,
        data=data,
        certificate=tls_cert,
        private_key=tls_key,
        supervised=supervised,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_console(settings))
    except (ConsoleError, ConsoleUsersError, RegistryUnreachable) as problem:
        print(f"ottla: {problem}", file=sys.stderr)
        return 1
    return 0


@command.group("user")
def user() -> None:
    """Add and remove the users of a console.

    \b
    Example:
      ottla console user add alice --users console.users
    """


_users_option = click.option(
    "--users",
    "users_file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The users file; created if it does not exist.",
)


@user.command("add")
@click.argument("name")
@_users_option
@click.password_option(help="The password; asked for if it is not given.")
def add(name: str, users_file: Path, password: str) -> None:
    """Add user NAME, or change the password.

    \b
    Example:
      ottla console user add alice --users console.users
    """
    from ottla.console.users import read_users, write_users
    from ottla.registry.security import hash_password

    if not name.strip() or any(letter.isspace() or letter == "#" for letter in name):
        raise click.UsageError("a name must have no spaces and no #.")
    users = read_users(users_file) if users_file.exists() else {}
    users[name] = hash_password(password)
    write_users(users_file, users)
    click.echo(f"added user {name} to {users_file}")


@user.command("remove")
@click.argument("name")
@_users_option
def remove(name: str, users_file: Path) -> None:
    """Remove user NAME; sessions that have begun go on until they end.

    \b
    Example:
      ottla console user remove alice --users console.users
    """
    from ottla.console.users import read_users, write_users

    users = read_users(users_file)
    if users.pop(name, None) is None:
        raise click.ClickException(f"there is no user {name} in {users_file}")
    write_users(users_file, users)
    click.echo(f"removed user {name} from {users_file}")
