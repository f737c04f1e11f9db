"""`ottla quota`: how much clients may produce, consume and ask for."""

import click

from ottla.cli.options import bootstrap_option, connect, json_option, pairs
from ottla.cli.output import print_json, print_table
from ottla.security.quotas import (
    CLIENT_ID,
    CONNECTION,
    CONSUME,
    IP,
    MUTATION,
    PRODUCE,
    REQUEST,
    USER,
    Entity,
    entity_of,
    parts_of,
)

KEYS = (PRODUCE, CONSUME, REQUEST, MUTATION, CONNECTION)
SIZES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
DEFAULT = "<default>"


@click.group("quota")
def command() -> None:
    """Set, list and remove client quotas.

    An entity is user=NAME, client-id=NAME, both, or ip=ADDRESS; the name <default> applies
    to all that have no quota of their own.

    \b
    Example:
      ottla quota set user=alice producer_byte_rate=1MB consumer_byte_rate=2MB
      ottla quota set 'user=<default>' request_percentage=50
    """


@command.command("set")
@click.argument("words", nargs=-1, required=True, metavar="ENTITY... KEY=VALUE...")
@bootstrap_option
def set_quota(words: tuple[str, ...], bootstrap: str) -> None:
    """Set quotas of an entity.

    \b
    Quotas:
      producer_byte_rate         bytes per second and broker, like 10MB
      consumer_byte_rate         bytes per second and broker
      request_percentage         share of the broker's time, in percent
      controller_mutation_rate   partitions created and deleted per second
      connection_creation_rate   new connections per second; with ip= only
    \b
    Example:
      ottla quota set user=alice client-id=loader producer_byte_rate=10MB
    """
    from ottla.client.security_admin import SecurityAdmin

    entity, values = _split(words)
    if not values:
        raise click.UsageError(f"name at least one quota: {', '.join(KEYS)}.")
    wanted: dict[str, float | None] = {key: _number(key, text) for key, text in values.items()}
    with connect(bootstrap) as client:
        SecurityAdmin(client).alter_quotas(entity, wanted)
    click.echo(f"set quotas of {_text(entity)}")


@command.command("list")
@bootstrap_option
@json_option
def list_quotas(bootstrap: str, as_json: bool) -> None:
    """List all quotas.

    \b
    Example:
      ottla quota list
    """
    from ottla.client.security_admin import SecurityAdmin

    with connect(bootstrap) as client:
        quotas = SecurityAdmin(client).quotas()
    if as_json:
        print_json(
            [
                {"entity": {**dict(parts_of(entity))}, "quotas": {**values}}
                for entity, values in quotas
            ]
        )
    elif not quotas:
        click.echo("no quotas")
    else:
        rows = [
            (_text(entity), key, value)
            for entity, values in sorted(quotas, key=lambda each: _text(each[0]))
            for key, value in sorted(values.items())
        ]
        print_table(("ENTITY", "QUOTA", "VALUE"), rows)


@command.command("remove")
@click.argument("words", nargs=-1, required=True, metavar="ENTITY... [KEY...]")
@bootstrap_option
def remove(words: tuple[str, ...], bootstrap: str) -> None:
    """Remove quotas of an entity: those named, or all.

    \b
    Example:
      ottla quota remove user=alice producer_byte_rate
    """
    from ottla.client.security_admin import SecurityAdmin

    keys = [word for word in words if "=" not in word]
    entity, values = _split([word for word in words if "=" in word])
    if values or not set(keys) <= set(KEYS):
        raise click.UsageError(f"quotas to remove are named without a value: {', '.join(KEYS)}.")
    with connect(bootstrap) as client:
        admin = SecurityAdmin(client)
        known = next((found for each, found in admin.quotas() if each == entity), {})
        doomed = [key for key in known if not keys or key in keys]
        if not doomed:
            raise click.ClickException(f"{_text(entity)} has no such quotas")
        admin.alter_quotas(entity, dict.fromkeys(doomed))
    click.echo(f"removed {', '.join(doomed)} of {_text(entity)}")


def _split(words: "list[str] | tuple[str, ...]") -> tuple[Entity, dict[str, str]]:
    from ottla.wire.errors import KafkaError

    found = pairs(words, "")
    named = {kind: found.pop(kind) for kind in (USER, CLIENT_ID, IP) if kind in found}
    for key in found:
        if key not in KEYS:
            raise click.UsageError(f"{key} is neither an entity nor one of {', '.join(KEYS)}.")
    try:
        entity = entity_of(
            (kind, None if name == DEFAULT else name) for kind, name in named.items()
        )
    except KafkaError as problem:
        raise click.UsageError(f"{problem.message}.") from None
    return entity, found


def _number(key: str, text: str) -> float:
    number, factor = text, 1
    for unit, size in SIZES.items():
        if text.endswith(unit):
            number, factor = text.removesuffix(unit), size
    try:
        return float(number) * factor
    except ValueError:
        raise click.UsageError(f"{key}={text}: must be a number, or one with KB, MB, GB.") from None


def _text(entity: Entity) -> str:
    return " ".join(f"{kind}={name or DEFAULT}" for kind, name in parts_of(entity))
