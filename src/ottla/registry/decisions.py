"""What each change of a registry writes: pure, from a state and a request to records and a reply.

Rules kept here:
1. A decision changes nothing. It has the records to append to `_schemas` and the answer that holds
   once they are replayed; a request that changes nothing has no records.
2. Modes are checked first: READONLY refuses every change of a subject, IMPORT takes ids and
   versions as given, and other modes refuse them.
3. A schema that a live schema refers to is not deleted.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ottla.registry.errors import (
    RegistryError,
    invalid_schema,
    not_permitted,
    reference_exists,
    schema_not_found,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from ottla.registry.languages import Dependency
from ottla.registry.model import Config, Level, Mode, Schema, Version
from ottla.registry.names import split
from ottla.registry.records import (
    ConfigKey,
    DeleteSubjectKey,
    ModeKey,
    RegistryRecord,
    SchemaKey,
    schema_record,
)
from ottla.registry.state import LATEST, State, resolve

T = TypeVar("T")


class Decision(Struct, Generic[T], frozen=True):
    """Records to write, and the answer once they are replayed."""

    records: Sequence[RegistryRecord]
    reply: T


def dependencies(state: State, subject: str, schema: Schema) -> list[Dependency]:
    """All schemas that a schema needs, each after those that it needs itself."""
    found: dict[str, Dependency] = {}

    def visit(owner: str, item: Schema, path: tuple[str, ...]) -> None:
        for reference in item.references:
            target = resolve(owner, reference.subject)
            if reference.name in found:
                continue
            if reference.name in path:
                raise invalid_schema(f"reference {reference.name} refers to itself")
            try:
                version = state.version(target, reference.version, deleted=True)
            except RegistryError:
                raise invalid_schema(
                    f"No schema reference found for subject '{target}' and version "
                    f"{reference.version}"
                ) from None
            if version.schema.type != schema.type:
                raise invalid_schema(
                    f"reference {reference.name} is of type {version.schema.type}, "
                    f"not {schema.type}"
                )
            visit(target, version.schema, (*path, reference.name))
            found[reference.name] = Dependency(reference.name, version.schema.text)

    visit(subject, schema, ())
    return list(found.values())


def same_schema(versions: Sequence[Version], schema: Schema) -> Version | None:
    """The newest of the versions that has this schema."""
    digest = schema.digest
    for version in reversed(versions):
        if version.schema.digest == digest:
            return version
    return None


def lookup(state: State, subject: str, schema: Schema, *, deleted: bool) -> Version:
    """The version of a subject that has this schema; 40401 or 40403."""
    found = same_schema(state.existing_versions(subject, deleted=deleted), schema)
    if found is None:
        raise schema_not_found()
    return found


def compared_with(state: State, subject: str, level: Level) -> list[Version]:
    """The versions that a new one is checked against, newest first."""
    if level is Level.NONE:
        return []
    versions = state.versions(subject)[::-1]
    return versions if level.transitive else versions[:1]


def check_writable(state: State, subject: str) -> Mode:
    """Refuse changes of a subject that is read-only; returns its mode."""
    mode = state.effective_mode(subject)
    if mode in (Mode.READONLY, Mode.READONLY_OVERRIDE):
        raise not_permitted(f"Subject {subject} is in read-only mode")
    return mode


def register(
    state: State,
    subject: str,
    schema: Schema,
    *,
    wanted_id: int | None = None,
    wanted_version: int | None = None,
) -> Decision[int]:
    """Register a schema that was parsed and found compatible; the reply is its id."""
    mode = check_writable(state, subject)
    importing = mode is Mode.IMPORT
    if wanted_id is not None and not importing:
        raise not_permitted(f"Subject {subject} is not in import mode")
    if importing and wanted_id is None:
        raise not_permitted(f"Subject {subject} is in import mode")
    context = split(subject).context
    versions = state.versions(subject, deleted=True)
    existing = same_schema([item for item in versions if not item.deleted], schema)
    if existing is not None and wanted_id in (None, existing.id):
        return Decision((), existing.id)
    known = state.id_of(schema, context)
    if wanted_id is None:
        schema_id = state.next_id(context) if known is None else known
    else:
        schema_id = wanted_id
        _check_import(state, context, schema, schema_id)
    following = versions[-1].version + 1 if versions else 1
    if wanted_version is not None and not importing and wanted_version != following:
        raise RegistryError(42201, f"Version is not one more than previous version: {following}")
    number = following if wanted_version is None else wanted_version
    return Decision(
        [schema_record(Version(subject, number, schema_id, schema, deleted=False))], schema_id
    )


def _check_import(state: State, context: str, schema: Schema, schema_id: int) -> None:
    try:
        known = state.schema(schema_id, context)
    except RegistryError:
        return
    if known.digest != schema.digest:
        raise not_permitted(f"Overwrite new schema with id {schema_id} is not permitted.")


def _check_unreferenced(state: State, version: Version) -> None:
    if any(not user.deleted for user in state.referrers(version.subject, version.version)):
        raise reference_exists(version.subject, version.version)


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision[list[int]]:
    """Delete all versions of a subject; the reply is their numbers."""
    check_writable(state, subject)
    everything = state.versions(subject, deleted=True)
    if not everything:
        raise subject_not_found(subject)
    live = [item for item in everything if not item.deleted]
    if permanent and live:
        raise subject_not_soft_deleted(subject)
    if not permanent and not live:
        raise subject_soft_deleted(subject)
    doomed = everything if permanent else live
    for version in doomed:
        _check_unreferenced(state, version)
    numbers = [item.version for item in doomed]
    if permanent:
        return Decision([RegistryRecord(SchemaKey(subject, number)) for number in numbers], numbers)
    records: list[RegistryRecord] = [RegistryRecord(DeleteSubjectKey(subject), numbers[-1])]
    if state.mode(subject) is not None:
        records.append(RegistryRecord(ModeKey(subject)))
    if state.config(subject) is not None:
        records.append(RegistryRecord(ConfigKey(subject)))
    return Decision(records, numbers)


def delete_version(state: State, subject: str, number: int, *, permanent: bool) -> Decision[int]:
    """Delete one version; the reply is its number."""
    check_writable(state, subject)
    everything = state.versions(subject, deleted=True)
    if not everything:
        raise subject_not_found(subject)
    try:
        found = state.version(subject, number, deleted=permanent or number != LATEST)
    except RegistryError:
        raise version_not_found("latest" if number == LATEST else number) from None
    if permanent and not found.deleted:
        raise version_not_soft_deleted(subject, found.version)
    if not permanent and found.deleted:
        raise version_soft_deleted(subject, found.version)
    _check_unreferenced(state, found)
    if permanent:
        return Decision([RegistryRecord(SchemaKey(subject, found.version))], found.version)
    gone = Version(subject, found.version, found.id, found.schema, deleted=True)
    records = [schema_record(gone)]
    if all(item.deleted for item in everything if item is not found):
        # The last one: the subject's own settings go with it, as with the whole subject.
        if state.mode(subject) is not None:
            records.append(RegistryRecord(ModeKey(subject)))
        if state.config(subject) is not None:
            records.append(RegistryRecord(ConfigKey(subject)))
    return Decision(records, found.version)


def set_config(state: State, scope: str, change: Config) -> Decision[Config]:
    """Change the settings of a subject, a context or everything (""); the rest stays."""
    check_writable(state, scope)
    before = state.config(scope) or Config()
    after = Config(
        **{
            name: new if (new := getattr(change, name)) is not None else getattr(before, name)
            for name in Config.__struct_fields__
        }
    )
    return Decision([RegistryRecord(ConfigKey(scope or None), after)], change)


def delete_config(state: State, scope: str) -> Decision[Config]:
    """Give a scope no settings of its own; the reply is what they were."""
    before = state.config(scope)
    if before is None:
        if scope:
            raise subject_not_found(scope)
        return Decision((), Config(compatibility_level=Level.BACKWARD.value))
    check_writable(state, scope)
    return Decision([RegistryRecord(ConfigKey(scope or None))], before)


def set_mode(state: State, scope: str, mode: Mode, *, force: bool) -> Decision[Mode]:
    """Change a mode. IMPORT needs an empty registry or subject, unless it is forced."""
    if mode is Mode.IMPORT and state.mode(scope) is not Mode.IMPORT and not force:
        taken = [name for name in state.subjects() if _within(name, scope)]
        if any(state.versions(name) for name in taken):
            raise not_permitted("Cannot import since found existing subjects")
    return Decision([RegistryRecord(ModeKey(scope or None), mode.value)], mode)


def delete_mode(state: State, scope: str) -> Decision[Mode]:
    """Give a scope no mode of its own; the reply is what it was."""
    before = state.mode(scope)
    if before is None:
        raise subject_not_found(scope)
    return Decision([RegistryRecord(ModeKey(scope))], before)


def _within(subject: str, scope: str) -> bool:
    """True if a scope is the subject itself, its context, or everything."""
    if not scope:
        return True
    wanted = split(scope)
    return subject == scope or (not wanted.subject and split(subject).context == wanted.context)
