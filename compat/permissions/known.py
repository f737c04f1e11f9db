"""Where replies differ from Kafka's on purpose or cannot be equal, each with its reason."""

from typing import NamedTuple

from ottla.wire.apis import ApiKey


class Known(NamedTuple):
    """A difference that is not a finding."""

    key: ApiKey
    path: str
    """How the place in the reply begins."""
    reason: str


KNOWN: tuple[Known, ...] = ()


def reason(key: ApiKey, path: str) -> str | None:
    """Why a difference is as it should be; None where it is a finding."""
    return next((each.reason for each in KNOWN if each.key == key and path.startswith(each.path)),
                None)  # fmt: skip
