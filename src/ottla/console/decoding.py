"""Values with a schema id, decoded by a registry where there is one."""

from ottla.console.context import Console
from ottla.registry.decoding import RegistryUnreachable, ValueDecodeError


def decoded(console: Console, data: bytes | None, form: str) -> bytes | None:
    """The JSON of a value that carries a schema id; what cannot be decoded as it is."""
    if data is None or console.decoder is None or form not in ("auto", "schema"):
        return data
    try:
        return console.decoder.decode(data)
    except (RegistryUnreachable, ValueDecodeError):
        return data


def decode_problem(console: Console, data: bytes | None) -> str:
    """Why a value that carries a schema id is not decoded; "" where it is."""
    if data is None or console.decoder is None:
        return ""
    try:
        console.decoder.decode(data)
    except (RegistryUnreachable, ValueDecodeError) as problem:
        return str(problem)
    return ""
