"""Secrets in settings: where they come from, and how they stay out of logs.

Rules kept here:
1. `${env:NAME}`, `${file:/path:key}` and `${dir:/path:file}` in a value are replaced (KIP-297,
   KIP-421, KIP-887), always: `config.providers` need not be set. Any other `${...}` stays as it is.
2. What cannot be resolved is a ConfigError that names the reference, never a value.
3. A `Secret` shows nothing of itself: not in repr, str, format or a traceback.

The environment is passed in; files are read here.
"""

import re
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path
from typing import Final

from ottla.config.errors import ConfigError
from ottla.config.sources import read_properties

HIDDEN: Final = "[hidden]"
_REFERENCE: Final = re.compile(r"\$\{(env|file|dir|directory):([^}]*)\}")
LARGEST_FILE: Final = 1 << 20


class Secret:
    """A text that is not shown. `reveal` is the only way to read it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type["Secret"], tuple[str]]:
        return Secret, (self._text,)


def resolve(text: str, environ: Mapping[str, str]) -> str:
    """The value with its references replaced; raises ConfigError."""
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda found: _value(found, environ), text)


def _value(found: re.Match[str], environ: Mapping[str, str]) -> str:
    kind, rest = found[1], found[2]
    if kind == "env":
        if rest not in environ:
            raise ConfigError(f"{found[0]}: environment variable {rest} is not set")
        return environ[rest]
    path, colon, key = rest.rpartition(":")
    if not colon or not path or not key:
        raise ConfigError(f"{found[0]}: expected ${{{kind}:/path:name}}")
    if kind == "file":
        for _, name, value in read_properties(_read(Path(path), found[0]), path):
            if name == key:
                return value
        raise ConfigError(f"{found[0]}: {path} has no key {key}")
    if "/" in key or key in (".", ".."):
        raise ConfigError(f"{found[0]}: {key} is not the name of a file in {path}")
    return _read(Path(path) / key, found[0])


def _read(path: Path, reference: str) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError(f"{reference}: {path} is larger than {LARGEST_FILE} bytes")
        return path.read_text("utf-8")
    except OSError as problem:
        raise ConfigError(f"{reference}: cannot read {path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{reference}: {path} is not a text file in UTF-8") from None
    except ValueError:  # a null character, or a lone surrogate
        raise ConfigError(f"{reference}: {str(path)!r} is not the name of a file") from None
