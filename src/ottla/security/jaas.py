"""The text of `sasl.jaas.config`: one login module with its options. Pure.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="secret" user_admin="secret" ;

Rules kept here:
1. As in Kafka there is exactly one module, one of Java's four flags, and a semicolon at the end.
2. Values are words or quoted, with Java's escapes; `//` and `/* */` are comments.
3. An error never repeats a value: it may be a password.
"""

import re
from typing import Final, NamedTuple

from ottla.config.errors import ConfigError

FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |"(?P<double>(?:\\.|[^"\\\n])*)"
    |'(?P<single>(?:\\.|[^'\\\n])*)'
    |(?P<mark>[=;])
    |(?P<word>[\w$.\-:@+/*]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class Jaas(NamedTuple):
    """A login module. Its repr would show passwords, so it has none of its options."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"Jaas(module={self.module!r}, options=[hidden])"

    @property
    def users(self) -> dict[str, str]:
        """The passwords of `user_NAME="password"` options, by user."""
        return {
            name.removeprefix("user_"): value
            for name, value in self.options.items()
            if name.startswith("user_")
        }


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> Jaas:
    """Read a JAAS configuration; raises ConfigError that names the setting."""
    tokens = _tokens(text, setting)
    if len(tokens) < 3:
        raise _wrong(setting, 'expected: MODULE required name="value" ... ;')
    (module, module_is_mark), (flag, _) = tokens[0], tokens[1]
    if module_is_mark:
        raise _wrong(setting, "the name of a login module is missing")
    if flag.lower() not in FLAGS:
        raise _wrong(setting, f"the login module must be followed by one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    at = 2
    while at < len(tokens) and tokens[at] != (";", True):
        name, is_mark = tokens[at]
        if is_mark or at + 2 >= len(tokens) or tokens[at + 1] != ("=", True) or tokens[at + 2][1]:
            raise _wrong(setting, 'an option must have the form name="value"')
        if name in options:
            raise _wrong(setting, f"option {name} is given twice")
        options[name] = tokens[at + 2][0]
        at += 3
    if at >= len(tokens):
        raise _wrong(setting, "it must end with a semicolon")
    if at + 1 != len(tokens):
        raise _wrong(setting, "it must have exactly one login module")
    return Jaas(module, options)


def _tokens(text: str, setting: str) -> list[tuple[str, bool]]:
    """Words and values, and the marks `=` and `;`, which the flag distinguishes."""
    found: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            kind = "unterminated quote" if text[at] in "\"'" else "unexpected character"
            raise _wrong(setting, f"{kind} at position {at}")
        at = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            found.append((_ESCAPE.sub(_unescaped, quoted), False))
        elif match["mark"]:
            found.append((match["mark"], True))
        elif match["word"]:
            found.append((match["word"], False))
    return found


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8) & 0xFF)
    return _ESCAPED.get(escaped, escaped)


def _wrong(setting: str, why: str) -> ConfigError:
    return ConfigError(f"Invalid value [hidden] for configuration {setting}: {why}")
