"""`ottla user`: who can log in with a password (SCRAM)."""

import secrets
from typing import TYPE_CHECKING, TextIO

import click

from ottla.cli.options import bootstrap_option, connect, json_option
from ottla.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.security_admin import SecurityAdmin

DEFAULT_MECHANISM = "SCRAM-SHA-512"
_MECHANISM = click.Choice(["SCRAM-SHA-256", "SCRAM-SHA-512"])
_password = click.option(
    "--password-file",
    type=click.File("r"),
    help="Read the password from a file, or with - from standard input. Without it a random "
    "password is generated and printed once.",
)


@click.group("user")
def command() -> None:
    """Add, list and remove users with SCRAM credentials.

    \b
    Example:
      ottla user add alice
      ottla user list
    """


@command.command("add")
@click.argument("name")
@click.option(
    "--mechanism",
    type=_MECHANISM,
    default=DEFAULT_MECHANISM,
    show_default=True,
    help="SASL mechanism.",
)
@_password
@bootstrap_option
def add(name: str, mechanism: str, password_file: TextIO | None, bootstrap: str) -> None:
    """Add a user that logs in with SCRAM. Prints a random password unless one is given.

    \b
    Example:
      ottla user add alice --password-file alice.password
    """
    from ottla.client.security_admin import SecurityAdmin

    with connect(bootstrap) as client:
        admin = SecurityAdmin(client)
        if any(user.name == name for user in admin.users()):
            raise click.ClickException(f"user {name} exists; use `ottla user passwd {name}`")
        _set(admin, name, [mechanism], password_file)
    click.echo(f"added user {name} ({mechanism})")


@command.command("passwd")
@click.argument("name")
@click.option(
    "--mechanism",
    type=_MECHANISM,
    help="Set the password of this SASL mechanism only.  [default: all that the user has]",
)
@_password
@bootstrap_option
def passwd(name: str, mechanism: str | None, password_file: TextIO | None, bootstrap: str) -> None:
    """Change the password of a user.

    \b
    Example:
      ottla user passwd alice
    """
    from ottla.client.security_admin import SecurityAdmin

    with connect(bootstrap) as client:
        admin = SecurityAdmin(client)
        found = next((user for user in admin.users() if user.name == name), None)
        if found is None:
            raise click.ClickException(f"user {name} does not exist; use `ottla user add {name}`")
        mechanisms = list(found.mechanisms) if mechanism is None else [mechanism]
        _set(admin, name, mechanisms, password_file)
    click.echo(f"changed the password of user {name} ({', '.join(mechanisms)})")


def _set(
    admin: "SecurityAdmin", name: str, mechanisms: "Sequence[str]", file: TextIO | None
) -> None:
    password = secrets.token_urlsafe(18) if file is None else file.read().rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty.")
    for mechanism in mechanisms:
        admin.set_password(name, password, mechanism)
    if file is None:
        click.echo(f"password: {password}")


@command.command("list")
@bootstrap_option
@json_option
def list_users(bootstrap: str, as_json: bool) -> None:
    """List the users.

    \b
    Example:
      ottla user list --json
    """
    from ottla.client.security_admin import SecurityAdmin

    with connect(bootstrap) as client:
        users = SecurityAdmin(client).users()
    if as_json:
        print_json([{"user": each.name, "mechanisms": {**each.mechanisms}} for each in users])
    elif not users:
        click.echo("no users")
    else:
        print_table(
            ("USER", "MECHANISMS"), [(each.name, ", ".join(each.mechanisms)) for each in users]
        )


@command.command("remove")
@click.argument("name")
@bootstrap_option
def remove(name: str, bootstrap: str) -> None:
    """Remove a user and all its credentials.

    \b
    Example:
      ottla user remove alice
    """
    from ottla.client.security_admin import SecurityAdmin

    with connect(bootstrap) as client:
        admin = SecurityAdmin(client)
        found = [user for user in admin.users() if user.name == name]
        if not found:
            raise click.ClickException(f"user {name} does not exist")
        for mechanism in found[0].mechanisms:
            admin.remove_credential(name, mechanism)
    click.echo(f"removed user {name}")
