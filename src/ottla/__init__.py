"""Ottla: a Kafka broker in Python, with a data pipeline on Spark."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.embedded import Broker
    from ottla.embedded_security import Security

__all__ = ["Broker", "Security", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import these when they are first asked for: the command line starts faster without."""
    if name == "Broker":
        from ottla.embedded import Broker

        return Broker
    if name == "Security":
        from ottla.embedded_security import Security

        return Security
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
