"""What is said about a wrong setting: one line with the name, the value and what would be right.

`ConfigError` is a `KafkaError` with INVALID_CONFIG, so a request that carries a wrong setting is
answered with the same text that the command line shows.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ottla.wire.errors import ErrorCode, KafkaError

LONGEST_COMPARED: Final = 100
CLOSE: Final = 0.5


class ConfigError(KafkaError):
    """A setting has an unknown name or a value that is not allowed. The text is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)

    def at(self, origin: str) -> "ConfigError":
        """The same complaint, led by the place that the setting came from."""
        return ConfigError(f"{origin}: {self.message}")


def invalid_value(name: str, value: object, problem: str) -> ConfigError:
    """The setting is known, its value is not allowed."""
    return ConfigError(f"Invalid value {_one_line(value)} for configuration {name}: {problem}")


def unknown_name(
    kind: str, name: str, known: Iterable[str], hint: str | None = None
) -> ConfigError:
    """No such setting; `hint` is the right name where it is known better than by likeness."""
    nearest = hint or nearest_name(name, known)
    advice = f" (did you mean {nearest}?)" if nearest else ""
    return ConfigError(f"Unknown {kind}config name: {_one_line(name)}{advice}")


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None when none comes close.

    By the pairs of letters that both have: a request may have very many wrong names.
    """
    wanted = name.strip().lower().replace("_", ".").replace("-", ".")
    if len(wanted) > LONGEST_COMPARED:
        return None
    pairs = _pairs(wanted)
    best, nearest = CLOSE, None
    for each in known:
        others = _pairs(each)
        likeness = 2 * len(pairs & others) / (len(pairs) + len(others))
        if likeness > best:
            best, nearest = likeness, each
    return nearest


@lru_cache(1024)
def _pairs(name: str) -> frozenset[str]:
    """Each letter with the one before it."""
    return frozenset(map(str.__add__, f" {name}", f"{name} "))


def _one_line(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)
