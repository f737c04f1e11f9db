"""The registry itself: state, store, schema languages and election put together.

Rules kept here:
1. Reads are answered from the state, by every registry. Changes are made by the writer alone, one
   after another: decide, write, replay, answer.
2. A writer writes only after it has read the topic to the end that it had when it was elected.
3. What was written is replayed at once if nothing came between; else when it is read.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from ottla.registry import decisions
from ottla.registry.decisions import Decision
from ottla.registry.election import Identity
from ottla.registry.errors import (
    RegistryError,
    incompatible_schema,
    invalid_schema,
    timed_out,
    unknown_leader,
)
from ottla.registry.languages import Source
from ottla.registry.languages.checker import Checker
from ottla.registry.model import TYPES, Level, Schema, Version, parse_level
from ottla.registry.names import check_subject
from ottla.registry.records import NoopKey, Record
from ottla.registry.state import State
from ottla.registry.store import Read, Store

log = structlog.get_logger()
T = TypeVar("T")

CATCH_UP_SECONDS: Final = 30.0
ELECTION_SECONDS: Final = 15.0
MOST_PROBLEMS: Final = 5
DIFFERENT_TYPE: Final = "Incompatible because of different schema type"


class Service:
    """Answers for a registry; belongs to one event loop."""

    def __init__(self, checker: Checker) -> None:
        self.state = State()
        self.checker = checker
        self.store: Store
        self.holds_lease: Callable[[], bool] = lambda: True
        """False when the election of this registry may have run out."""
        self.next_offset = 0
        self.last_written = -1
        self._writer: Identity | None = None
        self._is_writer = False
        self._elected = asyncio.Event()
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    # The topic and the election ---------------------------------------------------------------

    def on_read(self, read: list[Read], position: int) -> None:
        """Take in what the store has read."""
        for offset, record in read:
            if offset >= self.next_offset:
                if record is not None:
                    self.state.replay(record)
                self.next_offset = offset + 1
        self.next_offset = max(self.next_offset, position)
        still = []
        for offset, future in self._waiting:
            if offset >= self.next_offset:
                still.append((offset, future))
            elif not future.done():
                future.set_result(None)
        self._waiting = still

    async def caught_up(self, offset: int, seconds: float = CATCH_UP_SECONDS) -> None:
        """Wait until the record at an offset is replayed; 50002."""
        if offset < self.next_offset:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            reason = self.store.problem or f"record {offset} was not read in {seconds:g} seconds"
            raise timed_out(reason) from None

    async def elected(self, writer: Identity | None, is_me: bool) -> None:
        """Take the outcome of an election."""
        self._is_writer = False
        self._writer = writer
        self._elected.clear()
        if is_me:
            async with self._lock:
                offset = await self.store.write([Record(NoopKey())])
                await self.caught_up(offset)
                self._is_writer = True
            log.info("elected as the writer")
        if writer is not None:
            self._elected.set()

    @property
    def is_writer(self) -> bool:
        """True if this registry writes."""
        return self._is_writer

    async def writer(self) -> Identity | None:
        """Who writes, once that is known; None: this registry. 50004."""
        try:
            async with asyncio.timeout(ELECTION_SECONDS):
                await self._elected.wait()
        except TimeoutError:
            raise unknown_leader() from None
        return None if self._is_writer else self._writer

    def write_alone(self) -> None:
        """Write without an election: there is no other registry."""
        self._is_writer = True
        self._elected.set()

    # Schemas ----------------------------------------------------------------------------------

    async def parsed(self, subject: str, schema: Schema, *, normalize: bool) -> Schema:
        """A schema in its canonical form; 42201."""
        if schema.type not in TYPES:
            raise invalid_schema(f"unknown schema type {schema.type}")
        if not schema.text.strip() and schema.type != "PROTOBUF":
            raise invalid_schema("empty schema")
        normalize = normalize or bool(self.state.effective_config(subject).normalize)
        source = self.source(subject, schema)
        text = await self.checker.parse(schema.type, source, normalize=normalize)
        return Schema(text, schema.type, schema.references, schema.metadata, schema.rule_set)

    def source(self, subject: str, schema: Schema) -> Source:
        """A schema with all that it refers to."""
        return Source(schema.text, tuple(decisions.dependencies(self.state, subject, schema)))

    async def known_form(self, subject: str, schema: Schema, *, deleted: bool = False) -> Schema:
        """The form of a schema that the subject has already, where another registry wrote it."""
        versions = self.state.versions(subject, deleted=deleted)
        if decisions.same_schema(versions, schema) is not None:
            return schema
        for version in reversed(versions):
            known = version.schema
            if (known.type, known.references) != (schema.type, schema.references):
                continue
            if (known.metadata, known.rule_set) != (schema.metadata, schema.rule_set):
                continue
            try:
                source = self.source(subject, known)
                if await self.checker.parse(known.type, source, normalize=False) == schema.text:
                    return known
            except RegistryError:
                continue  # of another implementation that takes more
        return schema

    async def lookup(
        self, subject: str, schema: Schema, *, normalize: bool, deleted: bool
    ) -> Version:
        """The version of a subject that has this schema; 40401 or 40403."""
        self.state.existing_versions(subject, deleted=deleted)
        schema = await self.parsed(subject, schema, normalize=normalize)
        schema = await self.known_form(subject, schema, deleted=deleted)
        return decisions.lookup(self.state, subject, schema, deleted=deleted)

    async def register(
        self,
        subject: str,
        schema: Schema,
        *,
        normalize: bool,
        wanted_id: int | None,
        wanted_version: int | None,
    ) -> int:
        """Register a schema; returns its id."""
        check_subject(subject)

        async def decide() -> Decision[int]:
            decisions.check_writable(self.state, subject)
            parsed = await self.parsed(subject, schema, normalize=normalize)
            parsed = await self.known_form(subject, parsed)
            decision = decisions.register(
                self.state, subject, parsed, wanted_id=wanted_id, wanted_version=wanted_version
            )
            if decision.records and wanted_id is None:
                problems = await self.incompatibilities(subject, parsed)
                if problems:
                    raise incompatible_schema(subject, problems)
            return decision

        async with self._lock:
            return await self._carried_out(await decide())

    async def incompatibilities(
        self, subject: str, schema: Schema, against: list[Version] | None = None
    ) -> list[str]:
        """Why a schema cannot be the next version of a subject; nothing where it can."""
        level = parse_level(self.state.effective_config(subject).compatibility_level or "")
        if level is Level.NONE:
            return []
        compared = (
            decisions.compared_with(self.state, subject, level) if against is None else against
        )
        new = self.source(subject, schema)
        for version in compared:
            problems = await self._compared(subject, schema.type, new, version, level)
            if problems:
                return [
                    *problems[:MOST_PROBLEMS],
                    f"{{oldSchemaVersion: {version.version}}}",
                    f"{{oldSchema: '{version.schema.text}'}}",
                    f"{{compatibility: '{level.value}'}}",
                ]
        return []

    async def _compared(
        self, subject: str, kind: str, new: Source, version: Version, level: Level
    ) -> list[str]:
        if version.schema.type != kind:
            return [DIFFERENT_TYPE]
        old = self.source(subject, version.schema)
        (problems,) = await self.checker.compare(
            kind, new, [old], backward=level.backward, forward=level.forward
        )
        return problems

    def referring_ids(self, subject: str, number: int) -> list[int]:
        """The ids of the live schemas that refer to a version."""
        users = self.state.referrers(subject, number)
        return sorted({user.id for user in users if not user.deleted})

    # Changes ----------------------------------------------------------------------------------

    async def change(self, decide: Callable[[], Decision[T]]) -> T:
        """Make a change that needs no look at schemas."""
        async with self._lock:
            return await self._carried_out(decide())

    async def _carried_out(self, decision: Decision[T]) -> T:
        if not self._is_writer or not self.holds_lease():
            raise unknown_leader()
        if decision.records:
            last = await self.store.write(decision.records)
            if last - len(decision.records) + 1 == self.next_offset:
                first = self.next_offset
                self.on_read(list(enumerate(decision.records, first)), last + 1)
            else:
                await self.caught_up(last)
            self.last_written = last
        return decision.reply
