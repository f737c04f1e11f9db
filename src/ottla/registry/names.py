"""Subject names and contexts.

A qualified subject is `:.context:subject`; one of the default context is the plain name. `:*:` in a
prefix stands for all contexts.
"""

import re
from typing import Final, NamedTuple

from ottla.registry.errors import invalid_subject

DEFAULT_CONTEXT: Final = "."
ANY_CONTEXT: Final = ":*:"
LONGEST_SUBJECT: Final = 1024
_QUALIFIED: Final = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_RESERVED: Final = ("__GLOBAL", "__EMPTY")


class QualifiedSubject(NamedTuple):
    """A subject in its context; the empty subject stands for the whole context."""

    context: str
    subject: str

    def __str__(self) -> str:
        if self.context == DEFAULT_CONTEXT:
            return self.subject
        return f":{self.context}:{self.subject}"


def split(qualified: str) -> QualifiedSubject:
    """The parts of a qualified subject."""
    found = _QUALIFIED.fullmatch(qualified)
    return (
        QualifiedSubject(found[1], found[2])
        if found
        else QualifiedSubject(DEFAULT_CONTEXT, qualified)
    )


def qualify(subject: str, context: str | None = None) -> str:
    """The canonical name of a subject that a request names, perhaps below /contexts/NAME."""
    name = split(subject)
    if context is not None and name.context == DEFAULT_CONTEXT:
        name = QualifiedSubject(context_name(context), name.subject)
    return str(name)


def context_name(text: str) -> str:
    """A context as it is written: `.name`, `:.name:` or `name`."""
    plain = text.strip(":")
    if _CONTROL.search(plain) or ":" in plain:
        raise invalid_subject(text)
    return plain if plain.startswith(".") else f".{plain}"


def check_subject(qualified: str) -> None:
    """Refuse what cannot be a subject."""
    subject = split(qualified).subject
    if (
        not subject.strip()
        or subject in _RESERVED
        or _CONTROL.search(qualified)
        or len(qualified) > LONGEST_SUBJECT
    ):
        raise invalid_subject(qualified)


def has_prefix(qualified: str, prefix: str) -> bool:
    """True if a subject is one that `subjectPrefix` asks for."""
    if prefix.startswith(ANY_CONTEXT):
        return split(qualified).subject.startswith(prefix.removeprefix(ANY_CONTEXT))
    wanted, name = split(prefix), split(qualified)
    return wanted.context == name.context and name.subject.startswith(wanted.subject)


def scopes(qualified: str) -> list[str]:
    """Where a setting of a subject is looked for: itself, its context, then everything ("")."""
    name = split(qualified)
    found = [qualified] if name.subject else []
    if name.context != DEFAULT_CONTEXT:
        found.append(str(QualifiedSubject(name.context, "")))
    return [*found, ""]
