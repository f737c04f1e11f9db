"""What is said about a wrong setting: one line with the name, the value and what would be right.

`ConfigError` is a `KafkaError` with INVALID_CONFIG, so a request that carries a wrong setting is
answered with the same text that the command line shows.
"""

from collections.abc import Iterable

from ottla.wire.errors import ErrorCode, KafkaError


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
    """The known name most like `name`, or None when none comes close."""
    # Only a mistake needs it, and its import would cost every start.
    import difflib

    wanted = name.strip().lower().replace("_", ".").replace("-", ".")
    found = difflib.get_close_matches(wanted, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _one_line(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)
