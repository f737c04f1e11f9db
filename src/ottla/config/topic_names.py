"""Which topic names are legal: Kafka's rules.

1. 1 to 249 characters out of ASCII letters, digits, `.`, `_` and `-`; not `.` and not `..`.
2. Two names that differ only in `.` against `_` collide (they would share one metric name), and
   the second of them is refused at creation.
"""

import re

from ottla.wire.errors import ErrorCode, KafkaError

MAX_LENGTH = 249
GROUP_METADATA = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({GROUP_METADATA, TRANSACTION_STATE, SHARE_GROUP_STATE})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """Why the name is not legal, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION when the name is not legal."""
    problem = topic_name_problem(name)
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str | None:
    """What colliding names have in common; None for a name that collides with no other."""
    return name.replace(".", "_") if "." in name or "_" in name else None
