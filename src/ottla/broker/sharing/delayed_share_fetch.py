"""A share fetch: acquires records now, or waits until there are enough (Kafka's DelayedShareFetch).

Rules kept here:
1. Reading and acquiring is one step of the loop: no two fetches can get the same records.
2. Bytes are divided evenly between the partitions that may have records; the first batch found
   comes whole.
3. It waits on its partitions (appends, high watermark) and on their share partitions (records that
   become available, the end of loading), until `min_bytes` are there or the wait is over.
4. Files of what was read stay pinned until the reply is sent. What is acquired and not sent,
   because the client has gone, is given back with its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.replicas.cold_reads import begin_to_read
from ottla.broker.sharing.live_partition import LivePartition
from ottla.broker.sharing.share_reader import ShareRead, read_batches
from ottla.later import Later
from ottla.log.storage.file_cache import Slice
from ottla.log.storage.page_cache import ColdReadError
from ottla.share.acquiring import acquire
from ottla.share.sessions import TopicIdPartition
from ottla.share.states import Acquired, AcquireMode
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.sharing.share_partition_manager import SharePartitionManager

LOOKS: Final = 16
"""How often a partition is read in one turn where nothing is acquired: aborted, compacted."""


class ShareFetchParams(NamedTuple):
    """What a member asks for."""

    group: str
    member: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: AcquireMode


class FetchedPartition(NamedTuple):
    """What a fetch got of one partition."""

    error_code: ErrorCode
    records: Slice | None = None
    acquired: Sequence[Acquired] = ()


Fetched = dict[TopicIdPartition, FetchedPartition]


class DelayedShareFetch:
    """One share fetch."""

    def __init__(
        self,
        manager: SharePartitionManager,
        params: ShareFetchParams,
        wanted: Sequence[TopicIdPartition],
    ) -> None:
        self._manager = manager
        self._params = params
        self._wanted = wanted
        self._errors: Fetched = {}
        self._live: dict[TopicIdPartition, LivePartition] = {}
        self._later: Later[Fetched] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._poked = False
        self._warm = ""

    def begin(self) -> Fetched | Later[Fetched]:
        """What it got, now or later."""
        params = self._params
        if not self._wanted or params.max_records <= 0 or params.max_bytes <= 0:
            return {}
        self._find()
        if len(self._errors) == len(self._wanted):
            return self._errors
        found = self._try(least=params.min_bytes if params.max_wait_ms > 0 else 0)
        if found is not None:
            return found
        later: Later[Fetched] = Later()
        later.when_abandoned(self._end)
        self._later = later
        self._timer = asyncio.get_running_loop().call_later(
            params.max_wait_ms / 1000, self._time_is_up
        )
        self._wait()
        return later

    # Waiting ------------------------------------------------------------------------------

    def wake(self) -> None:
        """A partition has changed."""
        self.poke()

    def has_news(self) -> None:
        """Of followers only."""

    def poke(self) -> None:
        """Look again, once for all that comes in this turn."""
        if not self._poked:
            self._poked = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _wait(self) -> None:
        for live in self._live.values():
            live.add_waiter(self)
            if live.dropped is None:
                live.partition.add_reader(self)

    def _end(self) -> None:
        self._later = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for live in self._live.values():
            live.remove_waiter(self)
            live.partition.remove_reader(self)

    def _time_is_up(self) -> None:
        self._manager.metrics.expired_fetches += 1
        self._finish(self._attempt(0) or self._errors)

    def _look_again(self) -> None:
        self._poked = False
        if self._later is None:
            return
        found = self._attempt(self._params.min_bytes)
        if found is not None:
            self._finish(found)
        elif self._later is not None:
            self._wait()

    def _attempt(self, least: int) -> Fetched | None:
        known = len(self._errors)
        try:
            self._find()
            if len(self._errors) == len(self._wanted):
                return self._errors
            if len(self._errors) > known:
                least = 0  # the client learns at once that another broker leads
            return self._try(least)
        except Exception as problem:  # noqa: BLE001 its client must not wait for ever
            later = self._later
            self._end()
            if later is not None:
                later.fail(problem)
            return None

    def _finish(self, found: Fetched) -> None:
        later = self._later
        self._end()
        if later is not None:
            later.complete(found)

    # Looking ------------------------------------------------------------------------------

    def _find(self) -> None:
        """Find the share partitions, where they are not known or were dropped."""
        for where in self._wanted:
            if where in self._errors:
                continue
            live = self._live.get(where)
            if live is not None and live.dropped is not None:
                self._errors[where] = FetchedPartition(live.dropped)
                live.partition.remove_reader(self)
                del self._live[where]
            elif live is None:
                try:
                    self._live[where] = self._manager.live(self._params.group, where)
                except KafkaError as problem:
                    self._errors[where] = FetchedPartition(problem.code)

    def _try(self, least: int) -> Fetched | None:
        """Acquire if there are enough bytes; None if it has to wait."""
        result: Fetched = {}
        known = len(self._errors)
        left = self._params.max_records
        for _ in range(LOOKS):
            looks = self._read_all(left)
            size = sum(found.size for _, found in looks)
            if size < least or not looks:
                for _, found in looks:
                    found.let_go()
                break
            moved = False
            for live, found in looks:
                before = self._place(live)
                acquired = self._acquire(live, found, left)
                moved = moved or self._place(live) != before
                if acquired:
                    left -= sum(last - first + 1 for first, last, _ in acquired)
                    records = found.part_of(acquired)
                    live.partition.metrics.bytes_out += records.size
                    result[live.key.where] = FetchedPartition(ErrorCode.NONE, records, acquired)
                else:
                    found.let_go()
            if result or not moved:
                break
        if result or least <= 0 or len(self._errors) > known:
            return {**self._errors, **result}
        return None

    @staticmethod
    def _place(live: LivePartition) -> int:
        machine = live.ready()
        return -1 if machine is None else machine.next_fetch_offset(live.now())

    def _read_all(self, max_records: int) -> list[tuple[LivePartition, ShareRead]]:
        """What the partitions have that may be acquired."""
        able = [
            live
            for live in self._live.values()
            if (machine := live.ready()) is not None and machine.can_acquire(live.now())
        ]
        looks: list[tuple[LivePartition, ShareRead]] = []
        if not able:
            return looks
        share = max(1, self._params.max_bytes // len(able))
        try:
            for live in able:
                found = self._read(live, share, max_records, not looks)
                if found is not None:
                    looks.append((live, found))
        except BaseException:
            for _, found in looks:
                found.let_go()
            raise
        return looks

    def _read(
        self, live: LivePartition, share: int, max_records: int, whole_first: bool
    ) -> ShareRead | None:
        machine = live.ready()
        if machine is None:
            return None
        committed = live.settings.read_committed
        for _ in range(2):
            offset = machine.next_fetch_offset(live.now())
            # Records in flight lie between those that are available: they are passed over.
            most = max_records + machine.next_offset - offset
            try:
                return read_batches(
                    live.partition,
                    offset,
                    max_bytes=share,
                    max_records=most,
                    committed=committed,
                    whole_first=whole_first,
                    may_wait=self._warm == f"{live.partition} {offset}",
                )
            except ColdReadError as cold:
                self._warm = f"{live.partition} {offset}"
                reading = begin_to_read(self._manager.cold_readers, cold)
                reading.add_done_callback(self._is_warm)
                return None
            except KafkaError as problem:
                if problem.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._errors[live.key.where] = FetchedPartition(problem.code)
                    return None
                machine.log_starts_at(live.partition.log.start_offset)
        return None

    def _is_warm(self, reading: asyncio.Future[None]) -> None:
        if not reading.cancelled():
            reading.exception()  # the next read reports it
        self.poke()

    def _acquire(self, live: LivePartition, found: ShareRead, left: int) -> list[Acquired]:
        machine = live.ready()
        if machine is None:
            return []
        params = self._params
        acquired = acquire(
            machine,
            live.now(),
            params.member,
            fetch_offset=found.offset,
            batches=found.batches,
            max_records=left,
            batch_size=params.batch_size,
            mode=params.mode,
            aborted=found.aborted,
        )
        live.arm()
        return acquired
