"""What the commands have in common: their options, and how they reach a cluster."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from ottla.client import Client
    from ottla.client.security import ClientSecurity

BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
COMMAND_CONFIG_VARIABLE = "OTTLA_COMMAND_CONFIG"
PATIENCE_SECONDS = 15.0
_SECURITY = "ottla.client.security"

F = TypeVar("F", bound=Callable[..., object])


def _checked_bootstrap(context: click.Context, parameter: click.Parameter, text: str) -> str:
    from ottla.client.settings import addresses
    from ottla.wire.errors import KafkaError

    try:
        addresses(text)
    except KafkaError as problem:
        raise click.BadParameter(f"{problem}.") from None
    return text


_bootstrap: Callable[[F], F] = click.option(
    "--bootstrap",
    envvar=BOOTSTRAP_VARIABLE,
    show_envvar=True,
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    callback=_checked_bootstrap,
    help="Brokers to connect to, as host:port, separated by commas.",
)

_command_config: Callable[[F], F] = click.option(
    "--command-config",
    envvar=COMMAND_CONFIG_VARIABLE,
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    expose_value=False,
    callback=lambda context, _, path: _read_command_config(context, path),
    help="A properties file with Kafka's client settings, like security.protocol and "
    "sasl.jaas.config.",
)


def bootstrap_option(function: F) -> F:
    """How a command reaches a cluster: --bootstrap and --command-config."""
    return _bootstrap(_command_config(function))


def _read_command_config(context: click.Context, path: Path | None) -> None:
    """Keep what a file says about security for `connect`."""
    if path is None:
        return
    from ottla.client.security import client_security
    from ottla.config.errors import ConfigError
    from ottla.config.sources import read_properties

    try:
        found = {
            name: text for _, name, text in read_properties(path.read_text("utf-8"), str(path))
        }
        holds_secret = any("password" in name or "jaas" in name for name in found)
        if holds_secret and path.stat().st_mode & 0o077:
            raise click.BadParameter(
                f"{path} has passwords and can be read by other users; run: chmod 600 {path}"
            )
        context.meta[_SECURITY] = client_security(found)
    except ConfigError as problem:
        raise click.BadParameter(f"{path}: {problem}.") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{path} is not a text file in UTF-8.") from None
    except OSError as problem:
        raise click.BadParameter(f"{path}: {problem.strerror}.") from None


json_option: Callable[[F], F] = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class AnyCase(click.ParamType[str]):
    """One of Kafka's words, in any case; passed on in upper case as in Kafka's protocol."""

    name = "word"

    def __init__(self, *words: str) -> None:
        self._words = {word.lower(): word for word in words}

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """What stands behind the option in the help."""
        return f"[{'|'.join(self._words.values())}]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """The word as Kafka writes it."""
        found = self._words.get(str(value).lower())
        if found is None:
            self.fail(f"{value!r} is not one of {', '.join(self._words.values())}.", param, ctx)
        return found


def connect(bootstrap: str, deadline: float = PATIENCE_SECONDS) -> "Client":
    """A client that does not keep a person waiting for long, unless it is asked to."""
    from ottla.client import Client, ClientSettings

    return Client(
        ClientSettings(
            bootstrap_servers=bootstrap,
            client_id="ottla-cli",
            deadline=deadline,
            security=command_security(),
        )
    )


def command_security() -> "ClientSecurity | None":
    """What --command-config says of security; None for PLAINTEXT."""
    context = click.get_current_context(silent=True)
    found: ClientSecurity | None = None if context is None else context.meta.get(_SECURITY)
    return found


def pairs(items: Sequence[str], option: str) -> dict[str, str]:
    """The `name=value` texts of an option that may be repeated."""
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} {item}: must be name=value.")
        found[name.strip()] = value
    return found


def check_settings(kind: str, names: Iterable[str]) -> None:
    """Refuse names that no setting of a topic or group has: taking it back would change nothing."""
    from ottla.config.errors import unknown_name
    from ottla.config.group_configs import GROUP_CONFIGS
    from ottla.config.topic_configs import TOPIC_CONFIGS

    known = TOPIC_CONFIGS if kind == "topic" else GROUP_CONFIGS
    for name in names:
        if name not in known:
            raise click.UsageError(unknown_name(f"{kind} ", name, known).message or name)


LATEST_TIME_MS = 2**63 - 1


def timestamp_ms(text: str) -> int:
    """A point in time in milliseconds; ValueError says what can be read."""
    number = text.removesuffix("ms")
    if number != text and number.isascii() and number.isdigit():
        return min(int(number), LATEST_TIME_MS)
    try:
        at = datetime.fromisoformat(text)
        # Before 1970 is before every record, and a negative number would mean a place to Kafka.
        return 0 if at.year < 1969 else max(int(at.timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            "an ISO 8601 time (2026-01-31T12:00:00Z) or milliseconds (1769860800000ms)"
        ) from None
