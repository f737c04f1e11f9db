"""What is registered: the state that the records of `_schemas` make.

Rules kept here:
1. Only `replay` changes the state. The same records give the same state, in any process.
2. An id stands for one schema in its context, and a schema (`Schema.digest`) has one id there. The
   next id is one above the highest that was ever seen.
3. A soft-deleted version is found by its id, and where a caller asks for deleted ones; a hard
   delete (a tombstone) removes it.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct, field

from ottla.registry.errors import schema_not_found, subject_not_found, version_not_found
from ottla.registry.model import Config, Level, Mode, Reference, Schema, Version
from ottla.registry.names import DEFAULT_CONTEXT, scopes, split
from ottla.registry.records import (
    ClearSubjectKey,
    ConfigKey,
    DeleteSubjectKey,
    ModeKey,
    RegistryRecord,
    SchemaKey,
    SchemaValue,
    version_of,
)

LATEST: Final = -1
DEFAULT_LEVEL: Final = Level.BACKWARD


class Context(Struct):
    """The ids of one context."""

    schemas: dict[int, Schema] = field(default_factory=dict)
    ids: dict[bytes, int] = field(default_factory=dict)
    users: dict[int, set[tuple[str, int]]] = field(default_factory=dict)
    """The subjects and versions of an id."""
    highest: int = 0


class State:
    """Subjects, versions, ids, settings and modes."""

    def __init__(self) -> None:
        self._contexts: dict[str, Context] = {DEFAULT_CONTEXT: Context()}
        self._subjects: dict[str, dict[int, Version]] = {}
        self._configs: dict[str, Config] = {}
        self._modes: dict[str, Mode] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}

    # Changes --------------------------------------------------------------------------------

    def replay(self, record: RegistryRecord) -> None:
        """Take in the next record of the topic."""
        match record.key:
            case SchemaKey(subject, number):
                self._remove(subject, number)
                if isinstance(record.value, SchemaValue):
                    self._add(version_of(record.value))
            case DeleteSubjectKey(subject) if isinstance(record.value, int):
                for version in self._subjects.get(subject, {}).values():
                    if version.version <= record.value:
                        version.deleted = True
            case ClearSubjectKey(subject):
                for version in list(self._subjects.get(subject, {}).values()):
                    if version.deleted:
                        self._remove(subject, version.version)
            case ConfigKey(subject):
                if isinstance(record.value, Config):
                    self._configs[subject or ""] = record.value
                else:
                    self._configs.pop(subject or "", None)
            case ModeKey(subject):
                if isinstance(record.value, str) and record.value in Mode.__members__:
                    self._modes[subject or ""] = Mode(record.value)
                else:
                    self._modes.pop(subject or "", None)
            case _:
                pass

    def _add(self, version: Version) -> None:
        context = self._contexts.setdefault(split(version.subject).context, Context())
        known = context.schemas.setdefault(version.id, version.schema)
        if known == version.schema:
            version.schema = known  # one copy, however many subjects have it
        context.ids.setdefault(version.schema.digest, version.id)
        context.users.setdefault(version.id, set()).add((version.subject, version.version))
        context.highest = max(context.highest, version.id)
        self._subjects.setdefault(version.subject, {})[version.version] = version
        for reference in version.schema.references:
            self._referrers.setdefault(self._target(version.subject, reference), set()).add(
                (version.subject, version.version)
            )

    def _remove(self, subject: str, number: int) -> None:
        versions = self._subjects.get(subject, {})
        version = versions.pop(number, None)
        if version is None:
            return
        if not versions:
            del self._subjects[subject]
        context = self._contexts[split(subject).context]
        users = context.users[version.id]
        users.discard((subject, number))
        if not users:
            del context.users[version.id]
            del context.schemas[version.id]
            if context.ids.get(version.schema.digest) == version.id:
                del context.ids[version.schema.digest]
        for reference in version.schema.references:
            target = self._target(subject, reference)
            referrers = self._referrers.get(target, set())
            referrers.discard((subject, number))
            if not referrers:
                self._referrers.pop(target, None)

    @staticmethod
    def _target(subject: str, reference: Reference) -> tuple[str, int]:
        return resolve(subject, reference.subject), reference.version

    # Schemas --------------------------------------------------------------------------------

    def contexts(self) -> list[str]:
        """The names of all contexts."""
        return sorted(self._contexts)

    def subjects(self) -> list[str]:
        """All subjects, with those that have deleted versions only."""
        return sorted(self._subjects)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject, in order; none where it does not exist."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def existing_versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The same; 40401 where there are none."""
        found = self.versions(subject, deleted=deleted)
        if not found:
            raise subject_not_found(subject)
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version:
        """One version, or the LATEST; 40401 or 40402 where there is none."""
        versions = self.existing_versions(subject, deleted=deleted)
        if number == LATEST:
            return versions[-1]
        found = self._subjects[subject].get(number)
        if found is None or (found.deleted and not deleted):
            raise version_not_found(number)
        return found

    def schema(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> Schema:
        """What an id stands for, deleted or not; 40403."""
        found = self._contexts.get(context)
        if found is None or schema_id not in found.schemas:
            raise schema_not_found(schema_id)
        return found.schemas[schema_id]

    def users(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> list[Version]:
        """The versions that have an id, by subject; deleted ones too."""
        self.schema(schema_id, context)
        users = self._contexts[context].users[schema_id]
        return [self._subjects[subject][number] for subject, number in sorted(users)]

    def id_of(self, schema: Schema, context: str) -> int | None:
        """The id that a schema has already."""
        found = self._contexts.get(context)
        return None if found is None else found.ids.get(schema.digest)

    def next_id(self, context: str) -> int:
        """The id that the next new schema gets."""
        found = self._contexts.get(context)
        return 1 if found is None else found.highest + 1

    def highest_id(self, context: str) -> int:
        """The highest id so far; 0 where there was none."""
        return self.next_id(context) - 1

    def referrers(self, subject: str, number: int) -> Iterator[Version]:
        """The versions whose schemas refer to this one; deleted ones too."""
        for name, version in sorted(self._referrers.get((subject, number), ())):
            yield self._subjects[name][version]

    # Settings and modes -----------------------------------------------------------------------

    def config(self, scope: str) -> Config | None:
        """What is set for a subject or context itself; "" is everything."""
        return self._configs.get(scope)

    def effective_config(self, subject: str) -> Config:
        """What holds for a subject."""
        level, normalize = None, None
        for scope in scopes(subject):
            config = self._configs.get(scope, Config())
            level = level or config.compatibility_level
            normalize = config.normalize if normalize is None else normalize
        return Config(compatibility_level=level or DEFAULT_LEVEL.value, normalize=normalize)

    def mode(self, scope: str) -> Mode | None:
        """The mode of a subject or context itself; "" is everything."""
        return self._modes.get(scope)

    def effective_mode(self, subject: str) -> Mode:
        """The mode that holds for a subject; READONLY_OVERRIDE of everything holds for all."""
        if self._modes.get("") is Mode.READONLY_OVERRIDE:
            return Mode.READONLY_OVERRIDE
        for scope in scopes(subject):
            if scope in self._modes:
                return self._modes[scope]
        return Mode.READWRITE


def resolve(subject: str, referred: str) -> str:
    """The subject of a reference: in the context of the schema that refers, unless it says so."""
    context, name = split(referred)
    here = split(subject).context
    if context == DEFAULT_CONTEXT and here != DEFAULT_CONTEXT and not referred.startswith(":"):
        return f":{here}:{name}"
    return referred
