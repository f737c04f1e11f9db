"""Ottla: a Kafka broker in Python, with a data pipeline on Spark."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.embedded import Broker

__all__ = ["Broker", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the broker when it is first asked for: the command line starts faster without."""
    if name == "Broker":
        from ottla.embedded import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
