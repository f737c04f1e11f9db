"""The broker's static settings: a properties file, then `OTTLA_*` variables, then flags.

1. A later source wins: file < environment < flags.
2. The file has Java's `.properties` syntax, so that Kafka's `server.properties` works.
3. `OTTLA_LOG_RETENTION_MS` is `log.retention.ms`; Ottla's own settings need no second prefix:
   `OTTLA_METRICS_PORT` is `ottla.metrics.port`.
4. Every name and value is checked here; a complaint says where the setting came from.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ottla.config.broker_configs import BROKER_CONFIGS, broker_definition
from ottla.config.errors import ConfigError
from ottla.config.ignored_configs import is_ignored, warning

ENVIRONMENT_PREFIX = "OTTLA_"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LIKE_A_NAME = re.compile(r"[A-Za-z0-9._-]*")


class LoadedConfig(msgspec.Struct, frozen=True):
    """Checked settings as text, and what should be said about those without effect."""

    values: dict[str, str]
    warnings: tuple[str, ...]


class _Setting(msgspec.Struct, frozen=True):
    name: str
    value: str
    origin: str


def load(
    properties: str | None = None,
    *,
    file_name: str = "server.properties",
    environ: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    resolve: Callable[[str], str] = str,
) -> LoadedConfig:
    """All sources together; `properties` is the file's text, `flags` are `name=value`.

    `resolve` replaces references to secrets in a value.
    """
    values: dict[str, str] = {}
    warnings: dict[str, str] = {}
    for setting in _settings(properties, file_name, environ or {}, flags):
        try:
            definition = broker_definition(setting.name)
            if definition is None:
                warnings[setting.name] = f"{setting.origin}: {warning(setting.name)}"
                continue
            value = resolve(setting.value)
            definition.parse(value)
        except ConfigError as error:
            raise error.at(setting.origin) from None
        values[setting.name] = value
    return LoadedConfig(values, tuple(warnings.values()))


def _settings(
    properties: str | None, file_name: str, environ: Mapping[str, str], flags: Sequence[str]
) -> Iterator[_Setting]:
    if properties is not None:
        for line, name, value in read_properties(properties, file_name):
            yield _Setting(name, value, f"{file_name}:{line}")
    for variable in sorted(environ):
        if variable.startswith(ENVIRONMENT_PREFIX):
            yield _Setting(variable_setting(variable), environ[variable], variable)
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not equals:
            shown = flag if _LIKE_A_NAME.fullmatch(flag) else "[hidden]"
            raise ConfigError(f"--set {shown}: must be name=value")
        if not name.strip():  # the value may be a password
            raise ConfigError(
                "--set =[hidden]: the name is missing; use name=value, like num.partitions=3"
            )
        yield _Setting(name.strip(), value, "--set")


def variable_setting(variable: str) -> str:
    """The setting that an environment variable stands for."""
    name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
    own = f"ottla.{name}"
    if name not in BROKER_CONFIGS and own in BROKER_CONFIGS and not is_ignored(name):
        return own
    return name


def read_properties(text: str, file_name: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name and value of each setting in Java's `.properties` syntax."""
    for number, line in _logical_lines(text):
        try:
            name, value = _split(line)
            yield number, _unescaped(name), _unescaped(value)
        except ValueError as error:
            raise ConfigError(f"{file_name}:{number}: {error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that set something, with continued lines joined, and the number of their first."""
    started, joined = 0, ""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(lines, 1):
        line = raw.lstrip(_BLANKS)
        if not started:
            if not line or line[0] in "#!":
                continue
            started = number
        # An odd number of backslashes at the end continues the line; an even one is escaped.
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:
            joined += line[:-1]
            continue
        yield started, joined + line
        started, joined = 0, ""
    if started:
        yield started, joined


def _split(line: str) -> tuple[str, str]:
    """Name and value: separated by the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            plain.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == "u":
            plain.append(_unicode(text[at + 2 : at + 6]))
            at += 6
        else:
            plain.append(_ESCAPES.get(text[at + 1 : at + 2], text[at + 1 : at + 2]))
            at += 2
    # Two escaped halves of a surrogate pair are one character.
    return "".join(plain).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(digits: str) -> str:
    if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
        raise ValueError(f"\\u{digits} is not \\u and four hexadecimal digits")
    return chr(int(digits, 16))
