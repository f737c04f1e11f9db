"""Every generated message class, and Hypothesis strategies for them made from their field specs."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

from hypothesis import strategies as st

from ottla.wire import messages
from ottla.wire.message import Field, Message, Part

P = TypeVar("P", bound=Part)


def _message_classes() -> Iterator[type[Message]]:
    for module in iter_modules(messages.__path__, f"{messages.__name__}."):
        for found in vars(import_module(module.name)).values():
            if isinstance(found, type) and issubclass(found, Message) and found is not Message:
                yield found


MESSAGES = list(_message_classes())


def versions_of(cls: type[Message]) -> range:
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


MESSAGE_VERSIONS = [(cls, version) for cls in MESSAGES for version in versions_of(cls)]


PRIMITIVES: dict[str, st.SearchStrategy[object]] = {
    "bool": st.booleans(),
    "bytes": st.binary(max_size=20),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "records": st.binary(max_size=200),
    "string": st.text(max_size=8) | st.just("long" * 50),
    "uint16": st.integers(0, 2**16 - 1),
    "uuid": st.uuids(),
}

# kio knows error codes by an enum, and times as datetimes of whole seconds from 1970 on.
KIO_ERROR_CODES = st.integers(-1, 100)
KIO_DATETIMES = st.integers(0, 2**32).map(lambda seconds: seconds * 1000)
KIO_INT64 = st.integers(-(2**50), 2**50)
KIO_DATETIME_NAMES = frozenset(
    {
        "expiry_timestamp_ms",
        "issue_timestamp_ms",
        "log_append_time_ms",
        "max_timestamp_ms",
        "transaction_start_time_ms",
    }
)


@cache
def messages_of(cls: type[P], *, for_kio: bool = False) -> st.SearchStrategy[P]:
    """Messages with every field of every version; with `for_kio`, such as kio can say too."""
    return st.builds(cls, **{field.name: _values(field, for_kio) for field in cls.FIELDS})


def _values(field: Field, for_kio: bool) -> st.SearchStrategy[object]:
    values: st.SearchStrategy[object]
    if not isinstance(field.type, str):
        values = messages_of(field.type, for_kio=for_kio)
    elif for_kio and field.type == "int16" and field.name.endswith("error_code"):
        values = KIO_ERROR_CODES
    elif for_kio and field.name in KIO_DATETIME_NAMES:
        values = KIO_DATETIMES
    elif for_kio and field.type == "int64":
        values = KIO_INT64
    else:
        values = PRIMITIVES[field.type]
    if field.array:
        values = st.lists(values, max_size=2)
    return values if field.nullable == "none" else st.none() | values


def as_in_version(message: P, version: int) -> P:
    """What remains of a message in a version: fields it lacks, and nulls it cannot say, go."""
    defaults = type(message)()
    kept: dict[str, object] = {}
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if not field.is_in(version) or (value is None and not field.is_nullable_in(version)):
            value = getattr(defaults, field.name)
        # The default may be a null that this version cannot say either.
        if value is None and field.is_in(version) and not field.is_nullable_in(version):
            value = [] if field.array else b"" if field.type in ("bytes", "records") else ""
        if isinstance(value, Part):
            value = as_in_version(value, version)
        elif isinstance(value, list):
            value = [
                as_in_version(item, version) if isinstance(item, Part) else item for item in value
            ]
        kept[field.name] = value
    return type(message)(**kept)


def filled(cls: type[P], version: int) -> P:
    """A message with one element in each array and no null, so that every field is written."""
    values: dict[str, object] = {}
    for field in cls.FIELDS:
        if not field.is_in(version):
            continue
        if not isinstance(field.type, str):
            part = filled(field.type, version)
            values[field.name] = [part] if field.array else part
        elif field.array:
            values[field.name] = ["text" if field.type == "string" else 1]
        elif field.type in ("records", "bytes"):
            values[field.name] = b"batch"
        elif field.type == "string":
            values[field.name] = "text"
    return cls(**values)
