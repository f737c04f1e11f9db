"""Who a client is, as Kafka names it: a type and a name. Pure."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """An authenticated client. Its text form is Kafka's: `User:alice`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A client of a listener without authentication."""
WORKER: Final = Principal("Ottla", "worker")
"""A broker of `--workers`. Its kind is not User, so no client can have its name."""

REGISTRY: Final = Principal("Ottla", "registry")
"""The schema registry of `ottla serve --registry`."""


def parse_principal(text: str) -> Principal:
    """Read `User:alice`; ValueError if it is not of that form."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not a principal; expected a form like User:alice")
    return Principal(kind, name)
