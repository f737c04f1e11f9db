"""Subjects, versions, ids, deletes, modes and settings: decisions and their replay."""

from typing import TypeVar

import pytest

from ottla.registry import decisions
from ottla.registry.decisions import Decision
from ottla.registry.errors import RegistryError
from ottla.registry.model import Config, Level, Mode, Reference, Schema
from ottla.registry.records import RegistryRecord, decode, encode
from ottla.registry.state import LATEST, State

T = TypeVar("T")
INT, LONG, STRING = Schema('"int"'), Schema('"long"'), Schema('"string"')


class Registry:
    """A state, and the records that made it, over their bytes."""

    def __init__(self) -> None:
        self.state = State()
        self.log: list[tuple[bytes, bytes | None]] = []

    def do(self, decision: Decision[T]) -> T:
        for record in decision.records:
            data = encode(record)
            self.log.append(data)
            read = decode(*data)
            assert read is not None
            self.state.replay(read)
        return decision.reply

    def register(self, subject: str, schema: Schema, **wanted: int) -> int:
        return self.do(decisions.register(self.state, subject, schema, **wanted))

    def compacted(self) -> State:
        """A state from what compaction leaves of the log."""
        last = {key: at for at, (key, _) in enumerate(self.log)}
        state = State()
        for at, (key, value) in enumerate(self.log):
            if last[key] == at:
                record = decode(key, value)
                assert record is not None
                state.replay(record)
        return state


@pytest.fixture
def registry() -> Registry:
    return Registry()


def refusal(decide: object, *arguments: object, **named: object) -> int:
    with pytest.raises(RegistryError) as caught:
        decide(*arguments, **named)  # type: ignore[operator]
    return caught.value.code


def test_the_same_schema_has_the_same_id_in_all_subjects(registry: Registry) -> None:
    assert registry.register("a", INT) == 1
    assert registry.register("b", LONG) == 2
    assert registry.register("b", INT) == 1
    assert registry.register("a", INT) == 1
    assert [item.version for item in registry.state.versions("b")] == [1, 2]
    assert [item.subject for item in registry.state.users(1)] == ["a", "b"]


def test_metadata_makes_another_schema(registry: Registry) -> None:
    assert registry.register("a", INT) == 1
    assert registry.register("a", Schema('"int"', metadata={"properties": {"x": "y"}})) == 2


def test_contexts_have_ids_of_their_own(registry: Registry) -> None:
    registry.register("a", INT)
    assert registry.register(":.other:a", LONG) == 1
    assert registry.state.schema(1, ".other") == LONG
    assert registry.state.schema(1) == INT
    assert registry.state.contexts() == [".", ".other"]


def test_a_soft_deleted_version_is_found_by_its_id_alone(registry: Registry) -> None:
    registry.register("a", INT)
    registry.register("a", LONG)
    assert registry.do(decisions.delete_version(registry.state, "a", 1, permanent=False)) == 1
    state = registry.state
    assert refusal(state.version, "a", 1) == 40402
    assert state.version("a", 1, deleted=True).schema == INT
    assert state.schema(1) == INT
    assert [item.version for item in state.versions("a")] == [2]


def test_a_deleted_subject_comes_back_with_the_next_version(registry: Registry) -> None:
    registry.register("a", INT)
    registry.register("a", LONG)
    assert registry.do(decisions.delete_subject(registry.state, "a", permanent=False)) == [1, 2]
    assert refusal(registry.state.existing_versions, "a") == 40401
    assert registry.register("a", INT) == 1
    assert registry.state.version("a", LATEST).version == 3


def test_a_hard_delete_needs_a_soft_one_first_and_forgets(registry: Registry) -> None:
    registry.register("a", INT)
    state = registry.state
    assert refusal(decisions.delete_subject, state, "a", permanent=True) == 40405
    assert refusal(decisions.delete_version, state, "a", 1, permanent=True) == 40407
    registry.do(decisions.delete_subject(state, "a", permanent=False))
    assert refusal(decisions.delete_subject, state, "a", permanent=False) == 40404
    assert refusal(decisions.delete_version, state, "a", 1, permanent=False) == 40406
    registry.do(decisions.delete_subject(state, "a", permanent=True))
    assert refusal(state.schema, 1) == 40403
    assert refusal(decisions.delete_subject, state, "a", permanent=True) == 40401
    assert registry.register("a", LONG) == 2, "ids are not used again"
    assert state.version("a", LATEST).version == 1


def test_a_deleted_subject_loses_its_settings(registry: Registry) -> None:
    registry.register("a", INT)
    change = Config(compatibility_level="FULL")
    registry.do(decisions.set_config(registry.state, "a", change))
    registry.do(decisions.set_mode(registry.state, "a", Mode.READWRITE, force=False))
    registry.do(decisions.delete_subject(registry.state, "a", permanent=False))
    assert registry.state.config("a") is None
    assert registry.state.mode("a") is None


def test_a_referenced_schema_is_not_deleted(registry: Registry) -> None:
    registry.register("part", STRING)
    whole = Schema('["null"]', references=(Reference("part", "part", 1),))
    registry.register("whole", whole)
    state = registry.state
    assert refusal(decisions.delete_subject, state, "part", permanent=False) == 42206
    assert refusal(decisions.delete_version, state, "part", 1, permanent=False) == 42206
    registry.do(decisions.delete_subject(state, "whole", permanent=False))
    registry.do(decisions.delete_subject(state, "part", permanent=False))


def test_dependencies_come_before_what_needs_them(registry: Registry) -> None:
    registry.register("a", Schema('"int"'))
    registry.register("b", Schema('"long"', references=(Reference("a", "a", 1),)))
    top = Schema('"x"', references=(Reference("b", "b", 1), Reference("a", "a", 1)))
    assert [item.name for item in decisions.dependencies(registry.state, "t", top)] == ["a", "b"]
    missing = Schema('"x"', references=(Reference("c", "c", 1),))
    assert refusal(decisions.dependencies, registry.state, "t", missing) == 42201


def test_references_are_looked_up_in_their_context(registry: Registry) -> None:
    registry.register(":.x:a", INT)
    top = Schema('"x"', references=(Reference("a", "a", 1),))
    found = decisions.dependencies(registry.state, ":.x:top", top)
    assert [item.text for item in found] == ['"int"']


@pytest.mark.parametrize("mode", [Mode.READONLY, Mode.READONLY_OVERRIDE])
def test_read_only_refuses_changes(registry: Registry, mode: Mode) -> None:
    registry.register("a", INT)
    registry.do(decisions.set_mode(registry.state, "", mode, force=False))
    state = registry.state
    assert refusal(decisions.register, state, "a", LONG) == 42205
    assert refusal(decisions.delete_subject, state, "a", permanent=False) == 42205
    change = Config(compatibility_level="FULL")
    assert refusal(decisions.set_config, state, "a", change) == 42205


def test_an_override_beats_the_modes_of_subjects(registry: Registry) -> None:
    registry.do(decisions.set_mode(registry.state, "a", Mode.READWRITE, force=False))
    registry.do(decisions.set_mode(registry.state, "", Mode.READONLY, force=False))
    assert registry.state.effective_mode("a") is Mode.READWRITE
    registry.do(decisions.set_mode(registry.state, "", Mode.READONLY_OVERRIDE, force=False))
    assert registry.state.effective_mode("a") is Mode.READONLY_OVERRIDE


def test_import_takes_ids_and_versions_as_given(registry: Registry) -> None:
    assert refusal(decisions.register, registry.state, "a", INT, wanted_id=9) == 42205
    registry.do(decisions.set_mode(registry.state, "a", Mode.IMPORT, force=False))
    assert refusal(decisions.register, registry.state, "a", INT) == 42205
    assert registry.register("a", INT, wanted_id=100, wanted_version=5) == 100
    assert registry.state.version("a", 5).id == 100
    assert refusal(decisions.register, registry.state, "a", LONG, wanted_id=100) == 42205
    registry.do(decisions.delete_mode(registry.state, "a"))
    assert registry.register("b", LONG) == 101


def test_import_needs_an_empty_subject_or_force(registry: Registry) -> None:
    registry.register("a", INT)
    state = registry.state
    assert refusal(decisions.set_mode, state, "a", Mode.IMPORT, force=False) == 42205
    assert refusal(decisions.set_mode, state, "", Mode.IMPORT, force=False) == 42205
    registry.do(decisions.set_mode(state, "b", Mode.IMPORT, force=False))
    registry.do(decisions.set_mode(state, "a", Mode.IMPORT, force=True))


def test_settings_come_from_the_subject_its_context_or_everything(registry: Registry) -> None:
    state = registry.state
    assert state.effective_config("a").compatibility_level == "BACKWARD"
    for scope, level in (("", "NONE"), (":.x:", "FULL"), (":.x:a", "FORWARD")):
        change = Config(compatibility_level=level)
        registry.do(decisions.set_config(state, scope, change))
    assert state.effective_config("a").compatibility_level == "NONE"
    assert state.effective_config(":.x:b").compatibility_level == "FULL"
    assert state.effective_config(":.x:a").compatibility_level == "FORWARD"


@pytest.mark.parametrize(
    ("level", "versions"),
    [
        (Level.NONE, []),
        (Level.BACKWARD, [3]),
        (Level.FORWARD, [3]),
        (Level.FULL, [3]),
        (Level.BACKWARD_TRANSITIVE, [3, 1]),
        (Level.FORWARD_TRANSITIVE, [3, 1]),
        (Level.FULL_TRANSITIVE, [3, 1]),
    ],
)
def test_levels_say_which_versions_count(
    registry: Registry, level: Level, versions: list[int]
) -> None:
    for schema in (INT, LONG, STRING):
        registry.register("a", schema)
    registry.do(decisions.delete_version(registry.state, "a", 2, permanent=False))
    found = decisions.compared_with(registry.state, "a", level)
    assert [item.version for item in found] == versions


def test_a_compacted_log_gives_the_same_state(registry: Registry) -> None:
    registry.register("a", INT)
    registry.register("a", LONG)
    registry.register("b", STRING)
    registry.do(decisions.delete_version(registry.state, "a", 1, permanent=False))
    registry.do(decisions.delete_subject(registry.state, "b", permanent=False))
    registry.do(decisions.delete_subject(registry.state, "b", permanent=True))
    registry.register("b", INT)
    change = Config(compatibility_level="FULL")
    registry.do(decisions.set_config(registry.state, "a", change))
    registry.do(decisions.set_mode(registry.state, "b", Mode.READONLY, force=False))
    again = registry.compacted()
    assert again.subjects() == registry.state.subjects()
    for subject in again.subjects():
        assert again.versions(subject, deleted=True) == registry.state.versions(
            subject, deleted=True
        )
        assert again.config(subject) == registry.state.config(subject)
        assert again.mode(subject) == registry.state.mode(subject)
    assert refusal(again.schema, 3) == 40403


def test_a_clear_subject_removes_what_is_soft_deleted() -> None:
    from ottla.registry.records import ClearSubjectKey

    registry = Registry()
    registry.register("a", INT)
    registry.register("a", LONG)
    registry.do(decisions.delete_version(registry.state, "a", 1, permanent=False))
    registry.do(Decision([RegistryRecord(ClearSubjectKey("a"))], None))
    assert [item.version for item in registry.state.versions("a", deleted=True)] == [2]
