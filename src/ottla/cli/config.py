"""`ottla config`: what settings there are, what they are set to, and changing them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ottla.cli.options import (
    bootstrap_option,
    check_settings,
    connect,
    json_option,
    pairs,
)
from ottla.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from ottla.client.admin import Resource
    from ottla.config.definition import ConfigDef

KINDS = click.Choice(["topic", "broker", "group"])
ALL_BROKERS = "default"


@click.group("config")
def command() -> None:
    """Describe and alter the settings of topics, brokers and consumer groups.

    KIND is topic, broker or group. NAME is the name of a topic or group, or a broker id;
    broker "default" sets the cluster-wide defaults.

    \b
    Example:
      ottla config alter topic events retention.ms=3600000
    """


@command.command("list")
@click.argument("kind", type=KINDS, required=False, metavar="[KIND]")
@click.argument("setting", required=False)
@click.option("--docs", is_flag=True, help="Show the documentation of each setting.")
@json_option
def list_settings(kind: str | None, setting: str | None, docs: bool, as_json: bool) -> None:
    """List the supported settings: all, or those with SETTING in their name.

    This needs no broker. Settings that are not read-only can be changed without a restart.

    \b
    Example:
      ottla config list topic retention --docs
    """
    from ottla.config.broker_configs import BROKER_CONFIGS
    from ottla.config.group_configs import GROUP_CONFIGS
    from ottla.config.topic_configs import TOPIC_CONFIGS

    tables = {"topic": TOPIC_CONFIGS, "group": GROUP_CONFIGS, "broker": BROKER_CONFIGS}
    found = [
        definition
        for name, table in tables.items()
        if kind in (None, name)
        for definition in sorted(table.values(), key=lambda item: item.name)
        if not definition.internal and (setting or "") in definition.name
    ]
    if not found:
        raise click.ClickException(f"no setting has {setting!r} in its name")
    if as_json:
        print_json([_definition(item) for item in found])
    elif docs:
        for item in found:
            _show_docs(item)
    else:
        rows = [
            (item.name, item.scope.value, item.type.name.lower(), _default(item), _changes(item))
            for item in found
        ]
        print_table(("setting", "of", "type", "default", "changes"), rows)


@command.command("describe")
@click.argument("kind", type=KINDS, metavar="KIND")
@click.argument("name")
@click.argument("settings", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Include settings at their default value.")
@bootstrap_option
@json_option
def describe(
    kind: str,
    name: str,
    settings: tuple[str, ...],
    everything: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show the settings of a topic, broker or group: those set, all, or the named SETTINGS.

    \b
    Example:
      ottla config describe topic events retention.ms
    """
    from ottla.client.admin import Admin

    with connect(bootstrap) as client:
        found = Admin(client).describe_settings(_resource(kind, name), settings or None)
    missing = set(settings) - {item.name for item in found}
    if missing:
        raise click.ClickException(
            f"a {kind} has no setting {min(missing)} (see: ottla config list {kind})"
        )
    shown = [item for item in found if everything or settings or item.source != "DEFAULT_CONFIG"]
    if as_json:
        print_json(
            [
                {
                    "name": item.name,
                    "value": item.value,
                    "source": item.source,
                    "type": item.type,
                    "read_only": item.read_only,
                    "sensitive": item.sensitive,
                }
                for item in shown
            ]
        )
    elif not shown:
        click.echo(_nothing_set(kind, name))
    else:
        rows = [
            (item.name, "(hidden)" if item.sensitive else item.value, item.source) for item in shown
        ]
        print_table(("setting", "value", "from"), rows)


@command.command("alter")
@click.argument("kind", type=KINDS, metavar="KIND")
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="SETTING=VALUE...")
@bootstrap_option
@json_option
def alter(kind: str, name: str, settings: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Alter settings of a topic, broker or group; they take effect at once.

    \b
    Examples:
      ottla config alter group billing consumer.session.timeout.ms=50000
      ottla config alter topic events retention.ms=3600000 cleanup.policy=compact
      ottla config alter broker default log.retention.ms=86400000
    """
    from ottla.client.admin import Admin

    changes = pairs(settings, "setting")
    if kind == "broker":
        _check_names(changes)
    with connect(bootstrap) as client:
        Admin(client).alter_settings(_resource(kind, name), changes)
    if as_json:
        print_json({"kind": kind, "name": name, "set": dict(changes)})
    else:
        click.echo(f"set {', '.join(changes)} of {kind} {name}")


@command.command("delete")
@click.argument("kind", type=KINDS, metavar="KIND")
@click.argument("name")
@click.argument("settings", nargs=-1, required=True, metavar="SETTING...")
@bootstrap_option
@json_option
def delete(kind: str, name: str, settings: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Reset settings of a topic, broker or group to their defaults.

    \b
    Example:
      ottla config delete topic events retention.ms
    """
    from ottla.client.admin import Admin

    if kind == "broker":
        _check_names(settings)
    else:
        check_settings(kind, settings)
    with connect(bootstrap) as client:
        Admin(client).alter_settings(_resource(kind, name), delete=settings)
    if as_json:
        print_json({"kind": kind, "name": name, "deleted": list(settings)})
    else:
        click.echo(f"deleted {', '.join(settings)} of {kind} {name}")


def _nothing_set(kind: str, name: str) -> str:
    if kind == "broker" and name == ALL_BROKERS:
        return "no setting is set for all brokers (ottla config describe broker ID --all: defaults)"
    return f"{kind} {name} has no settings of its own (--all shows the defaults)"


def _check_names(settings: Iterable[str]) -> None:
    """A broker takes names that it does not know, as Kafka's does: here they are mistakes."""
    from ottla.config.broker_configs import broker_definition
    from ottla.config.errors import ConfigError

    for name in settings:
        try:
            broker_definition(name)
        except ConfigError as problem:
            raise click.UsageError(str(problem)) from None


def _resource(kind: str, name: str) -> "Resource":
    from ottla.client.admin import Resource
    from ottla.wire.config_resource_type import ConfigResourceType

    if kind == "topic":
        return Resource(ConfigResourceType.TOPIC, name)
    if kind == "group":
        return Resource(ConfigResourceType.GROUP, name)
    if name == ALL_BROKERS:
        return Resource(ConfigResourceType.BROKER, "")
    if not (name.isascii() and name.isdigit()):
        raise click.UsageError(f"{name} is not a broker's id, nor {ALL_BROKERS}.")
    return Resource(ConfigResourceType.BROKER, name)


def _default(item: "ConfigDef") -> str | None:
    from ottla.config.types import format_value

    if item.default is None and item.name in item.synonyms[:-1]:
        return f"see {item.synonyms[item.synonyms.index(item.name) + 1]}"
    return format_value(item.default)


def _changes(item: "ConfigDef") -> str:
    return item.dynamic.value if item.scope.value == "broker" else "any time"


def _definition(item: "ConfigDef") -> dict[str, Json]:
    return {
        "name": item.name,
        "scope": item.scope.value,
        "type": item.type.name,
        "default": _default(item),
        "allowed": None if item.validator is None else str(item.validator),
        "changes": _changes(item),
        "synonyms": list(item.synonyms),
        "documentation": item.doc,
    }


def _show_docs(item: "ConfigDef") -> None:
    allowed = "" if item.validator is None else f", allowed: {item.validator}"
    click.echo(
        f"{item.name}  ({item.scope.value}, {item.type.name.lower()}, "
        f"default: {_default(item) or '-'}{allowed}, changes: {_changes(item)})"
    )
    click.echo(click.wrap_text(item.doc, 96, "    ", "    "))
