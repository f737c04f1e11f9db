"""Readers make progress: while there is data that a reader may read, its fetches return it.

A reader that behaves as Kafka's clients do (a session, only changes are sent) reads from a broker
while random things happen: appends of all sizes, transactions, moving log starts and high
watermarks, new leaders, evicted sessions, partitions that come and go, topics created again. After
every fetch:

1. Something was returned if any partition of the session had something to return (KIP-74).
2. A partition with data was passed over at most as often as there are partitions.
3. What was returned are whole batches in order, of the reader's position, and none of them lies at
   or above what the reader may see.
4. No file stays pinned, and nobody waits on a partition whose session has ended.

All of it holds too where every fetch is one of many partitions, which looks at them in turns.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from ottla.broker.broker_server import BrokerServer
from ottla.broker.coordinators.markers import marker_batch
from ottla.broker.metadata.topics import delete_topic
from ottla.broker.replicas.delayed_fetch import Answer, DelayedFetch
from ottla.broker.replicas.fetch_sessions import NO_SESSION, CachedPartition
from ottla.broker.replicas.partition import Partition
from ottla.later import Later
from ottla.log.storage.file_cache import Slice
from ottla.records.control import Marker, MarkerType
from ottla.replication.replicas import Leadership
from ottla.wire.batch import TRANSACTIONAL, headers
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.fetch import INITIAL_EPOCH, FetchPartition, FetchRequest
from testkit.batches import Batch, Plain, now_ms
from testkit.waiting import until_on_loop as until
from tests.broker.nodes import PRODUCE_VERSION, running, topic, write

BY_NAME = 12
TOPIC = "t"
PARTITIONS = 4
FOLLOWER = 2
PRODUCER = 7
NOT_SERVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
DISTURBANCES = [
    *("roll", "delete", "resign", "lead", "lead_others", "create_again", "evict", "slots"),
    *("want", "forget", "seek", "isolate"),
]
T = TypeVar("T")


def request(
    asks: list[FetchPartition],
    *,
    session: tuple[int, int] = (NO_SESSION, INITIAL_EPOCH),
    forgotten: list[int] | None = None,
    wait_ms: int = 1,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation: int = 0,
) -> FetchRequest:
    return FetchRequest(
        *(-1, -1, wait_ms, min_bytes, max_bytes, isolation, *session),
        topics=[(TOPIC, asks)] if asks else [],
        forgotten=[(TOPIC, forgotten)] if forgotten else [],
        rack_id="",
        cluster_id=None,
    )


async def answered(
    node: BrokerServer,
    asked: FetchRequest,
    meanwhile: Callable[[], object] | None = None,
    turns: int = 0,
) -> tuple[int, Answer]:
    """The session and the answer of a fetch; something may happen so many turns after it began."""
    session, full = node.fetch_sessions.begin(asked, BY_NAME, node.now_ms())
    answer = DelayedFetch(node.fetches, session, full, asked, "PLAINTEXT").begin()
    if not isinstance(answer, Later):
        return session.id, answer
    done = asyncio.get_running_loop().create_future()
    answer.then(lambda: done.set_result(None))
    if meanwhile is not None:
        for _ in range(turns):
            await asyncio.sleep(0)
        meanwhile()
    await done
    return session.id, answer.result()


@pytest.fixture(params=[False, True], ids=["few", "many"])
def looks_in_turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether fetches look at one partition in each turn, as if they were very many."""
    if request.param:
        monkeypatch.setattr("ottla.broker.replicas.delayed_fetch.MOST_AT_ONCE", 0)
        monkeypatch.setattr("ottla.broker.replicas.delayed_fetch.FEW", 0)
        monkeypatch.setattr("ottla.broker.replicas.delayed_fetch.PIECE", 1)
        monkeypatch.setattr("ottla.broker.scheduling.turns.TURN_SECONDS", -1)
    return bool(request.param)


def taken(part: object) -> bytes:
    """The bytes of a stretch of a file, which is let go of."""
    assert isinstance(part, Slice)
    data = os.pread(part.file.descriptor(), part.size, part.position)
    part.file.unpin()
    return data


def test_a_batch_larger_than_its_limit_is_returned_though_others_have_too_little(
    tmp_path: Path,
) -> None:
    """`fetch.min.bytes` is never reached, and one next batch exceeds the partition's limit."""

    async def live() -> None:
        async with running(tmp_path) as node:
            write(await topic(node, TOPIC, partitions=2), size=10)
            write(node.partitions.find(TOPIC, 1), size=5000)
            asks = [FetchPartition(index, -1, 0, -1, -1, 1000) for index in (0, 1)]
            session, first = await answered(node, request(asks, min_bytes=100_000))
            ((_, (small, large)),) = first
            assert len(taken(small.records)) < 1000
            assert large.records is None
            small_is_read = FetchPartition(0, -1, 1, -1, -1, 1000)
            _, second = await answered(
                node, request([small_is_read], session=(session, 1), min_bytes=100_000)
            )
            ((_, (data,)),) = second
            assert data.partition == 1
            assert len(taken(data.records)) > 5000

    asyncio.run(live())


def test_a_reader_that_stops_to_read_committed_sees_what_it_did_not_see_before(
    tmp_path: Path,
) -> None:
    """No client does so, but the protocol has the isolation level in every request."""

    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, TOPIC)
            begin = Batch(
                [Plain()],
                attributes=TRANSACTIONAL,
                producer_id=PRODUCER,
                producer_epoch=0,
                base_sequence=0,
            )
            partition.append(memoryview(bytearray(begin.build())), now_ms(), PRODUCE_VERSION)
            ask = FetchPartition(0, -1, 0, -1, -1, 1000)
            session, nothing = await answered(node, request([ask], isolation=1))
            assert nothing[0][1][0].records is None
            _, answer = await answered(node, request([], session=(session, 1), isolation=0))
            assert taken(answer[0][1][0].records)

    asyncio.run(live())


def test_a_file_is_let_go_of_where_its_aborted_transactions_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with running(tmp_path) as node:
            partition = await topic(node, TOPIC)
            write(partition)

            def damaged(_: object) -> object:
                raise OSError(5, "Input/output error")

            segment = partition.log.segments.active
            with monkeypatch.context() as patched:
                patched.setattr(type(segment), "txn_index", property(damaged))
                ask = FetchPartition(0, -1, 0, -1, -1, 1000)
                _, answer = await answered(node, request([ask], isolation=1))
            assert answer[0][1][0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert segment.file.pins == 0

    asyncio.run(live())


class Reader:
    """A consumer as its broker sees it: a session, positions, and what was sent of them."""

    def __init__(self) -> None:
        self.session = (NO_SESSION, INITIAL_EPOCH)
        self.asks: dict[int, FetchPartition] = {}
        """What is wanted of each partition."""
        self.sent: dict[int, FetchPartition] = {}
        """What the broker knows of that."""
        self.passed_over: dict[int, int] = {}
        self.isolation = 0

    def want(self, index: int, *, offset: int | None = None, max_bytes: int | None = None) -> None:
        ask = self.asks.get(index, FetchPartition(index, -1, 0, -1, -1, 1 << 20))
        if offset is not None:
            ask = ask._replace(fetch_offset=offset)
        if max_bytes is not None:
            ask = ask._replace(max_bytes=max_bytes)
        self.asks[index] = ask

    def forget(self, index: int) -> None:
        self.asks.pop(index, None)
        self.passed_over.pop(index, None)

    def restart(self) -> None:
        """The broker has forgotten the session, or never had one."""
        self.session = (NO_SESSION, INITIAL_EPOCH)
        self.sent = {}

    def changes(self) -> tuple[list[FetchPartition], list[int]]:
        """What is to be sent. In a full fetch those come first that were passed over longest."""
        changed = [ask for index, ask in self.asks.items() if self.sent.get(index) != ask]
        changed.sort(key=lambda ask: -self.passed_over.get(ask.partition, 0))
        return changed, [index for index in self.sent if index not in self.asks]


class Progress(RuleBasedStateMachine):
    """One reader, one broker."""

    loop: asyncio.AbstractEventLoop
    node: BrokerServer

    @initialize(
        limits=st.lists(
            st.sampled_from((0, 100, 1000, 1 << 20)), min_size=PARTITIONS, max_size=PARTITIONS
        ),
        isolation=st.sampled_from((0, 1)),
    )
    def begin(self, limits: list[int], isolation: int) -> None:
        self.node.fetch_sessions.slots = 1000
        self.reader = Reader()
        self.reader.isolation = isolation
        for index, limit in enumerate(limits):
            self.reader.want(index, max_bytes=limit)
        self.run(self._create())

    async def _create(self) -> None:
        await topic(self.node, TOPIC, partitions=PARTITIONS)
        await until(lambda: all(self.partition(index).leads for index in range(PARTITIONS)))
        self.sequences = dict.fromkeys(range(PARTITIONS), 0)
        self.in_transaction: set[int] = set()
        self.led = set(range(PARTITIONS))

    def teardown(self) -> None:
        if not hasattr(self, "reader"):
            return
        try:
            for _ in range(200):
                if not self.due(0):
                    break
                self._fetch(1, 1 << 20, 0, 1)
            assert not self.due(0), "records that are never returned"
        finally:
            self.run(delete_topic(self.node.metadata, TOPIC))

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.loop.run_until_complete(wait())

    def partition(self, index: int) -> Partition:
        found = self.node.partitions.get(TOPIC, index)
        assert found is not None
        return found

    def due(self, isolation: int) -> set[int]:
        """The partitions that a fetch has to return records of, sooner or later."""
        found = set()
        for index, ask in self.reader.asks.items():
            if index in self.led:
                partition = self.partition(index)
                if (
                    partition.log.start_offset
                    <= ask.fetch_offset
                    < partition.readable_to(isolation == 1)
                ):
                    found.add(index)
        return found

    # What happens to the broker -----------------------------------------------------------

    indexes = st.integers(0, PARTITIONS - 1)
    sizes = st.sampled_from((1, 50, 200, 900, 3000))

    def _append(self, index: int, size: int, *, transactional: bool = False) -> None:
        if index not in self.led:
            return
        batch = Batch([Plain(b"x" * size)])
        if transactional:
            batch.attributes = TRANSACTIONAL
            batch.producer_id, batch.producer_epoch = PRODUCER, 0
            batch.base_sequence = self.sequences[index]
            self.sequences[index] += 1
            self.in_transaction.add(index)
        self.partition(index).append(
            memoryview(bytearray(batch.build())), now_ms(), PRODUCE_VERSION
        )

    @rule(index=indexes, sizes=st.lists(sizes, min_size=1, max_size=4))
    def append(self, index: int, sizes: list[int]) -> None:
        for size in sizes:
            self.run_on_loop(partial(self._append, index, size))

    @rule(index=indexes, size=sizes)
    def append_in_transaction(self, index: int, size: int) -> None:
        self.run_on_loop(lambda: self._append(index, size, transactional=True))

    @rule(index=indexes, kind=st.sampled_from(MarkerType))
    def end_transaction(self, index: int, kind: MarkerType) -> None:
        if index in self.in_transaction & self.led:
            self.in_transaction.discard(index)
            marker = marker_batch(Marker(kind, 0, PRODUCER, 0), now_ms())
            self.run_on_loop(lambda: self.partition(index).append_marker(marker, now_ms(), 0))

    @rule(
        kind=st.sampled_from(DISTURBANCES),
        index=indexes,
        part=st.floats(0, 1),
    )
    def disturb(self, kind: str, index: int, part: float) -> None:
        """What happens seldom, beside reading and writing."""
        partition, reader = self.partition(index), self.reader
        start, end = partition.log.start_offset, partition.high_watermark
        somewhere = start + int((end - start) * part)
        match kind:
            case "roll":
                self.run_on_loop(partition.log.roll)
            case "delete":
                self.run_on_loop(lambda: self._delete_records(partition, somewhere))
            case "resign":
                self.led.discard(index)
                self.run_on_loop(lambda: partition.follow(partition.leader_epoch + 1, None))
            case "lead" | "lead_others":
                self.led.add(index)
                self.run_on_loop(lambda: self._lead(partition, alone=kind == "lead"))
            case "create_again":
                self.run(delete_topic(self.node.metadata, TOPIC))
                self.run(self._create())
            case "evict":
                self.node.fetch_sessions.remove(reader.session[0])
            case "slots":
                self.node.fetch_sessions.slots = 0 if part < 0.3 else 1000
            case "want":
                reader.want(index, max_bytes=(0, 100, 1000, 1 << 20)[int(part * 3)])
            case "forget":
                reader.forget(index)
            case "seek" if index in reader.asks:
                reader.want(index, offset=somewhere)
            case "isolate":
                reader.isolation = 1 - reader.isolation

    def _delete_records(self, partition: Partition, offset: int) -> None:
        partition.log.raise_start_offset(offset)
        partition.wake_all()

    def _lead(self, partition: Partition, *, alone: bool) -> None:
        epoch = partition.leader_epoch + 1
        if alone:
            partition.lead(epoch, None)
            return
        image = replace(
            self.node.image.partitions[TOPIC, partition.index],
            leader_epoch=epoch,
            isr=[self.node.id, FOLLOWER],
            isr_epochs=[1, 1],
        )
        leadership = Leadership(
            self.node.id,
            image,
            [self.node.id, FOLLOWER],
            log_end=partition.log.end_offset,
            high_watermark=partition.high_watermark,
            min_isr=1,
            lag=10**9,  # or the broker itself changes the ISR in a slow run
            now=0,
        )
        partition.lead(epoch, leadership)

    @rule(index=indexes, part=st.floats(0, 1))
    def follower_fetches(self, index: int, part: float) -> None:
        partition = self.partition(index)
        leadership = partition.leadership
        if leadership is None:
            return
        start, end = partition.high_watermark, partition.log.end_offset

        def fetched() -> None:
            if leadership.fetched(FOLLOWER, 1, start + int((end - start) * part), 0, 0):
                partition.high_watermark_grew()

        self.run_on_loop(fetched)

    def run_on_loop(self, work: Callable[[], object]) -> None:
        async def run() -> None:
            work()

        self.run(run())

    # What the reader does -----------------------------------------------------------------

    @precondition(lambda self: self.reader.asks)
    @rule(
        count=st.integers(1, 4),
        min_bytes=st.sampled_from((0, 1, 500, 100_000)),
        max_bytes=st.sampled_from((0, 100, 2000, 1 << 20)),
        wait_ms=st.sampled_from((0, 1)),
    )
    def fetch(self, count: int, min_bytes: int, max_bytes: int, wait_ms: int) -> None:
        for _ in range(count):
            self._fetch(min_bytes, max_bytes, self.reader.isolation, wait_ms)

    @rule(size=sizes, index=indexes, turns=st.integers(0, 2 * PARTITIONS))
    def wait_for_append(self, size: int, index: int, turns: int) -> None:
        """A parked fetch is answered by an append; where it is not, this waits very long."""
        reader, partition = self.reader, self.partition(index)
        sees = partition.leadership is None and index not in self.in_transaction
        if index in reader.asks and index in self.led and sees and not self.due(reader.isolation):
            reader.want(index, offset=partition.log.end_offset)
            append = partial(self._append, index, size)
            self._fetch(1, 1 << 20, reader.isolation, 60_000, append, turns)

    @precondition(lambda self: self.reader.asks)
    @rule(
        kind=st.sampled_from(("append", "roll", "delete", "evict")),
        index=indexes,
        part=st.floats(0, 1),
        turns=st.integers(0, 4 * PARTITIONS),
        min_bytes=st.sampled_from((1, 100_000)),
    )
    def disturb_fetch(self, kind: str, index: int, part: float, turns: int, min_bytes: int) -> None:
        """The same things while a fetch is under way."""
        partition = self.partition(index)
        acts: dict[str, Callable[[], object]] = {
            "append": partial(self._append, index, int(2000 * part)),
            "roll": partition.log.roll,
            "delete": partial(self._delete_records, partition, partition.high_watermark),
            "evict": partial(self.node.fetch_sessions.remove, self.reader.session[0]),
        }
        self._fetch(min_bytes, 1 << 20, self.reader.isolation, 1, acts[kind], turns)

    def _fetch(
        self,
        min_bytes: int,
        max_bytes: int,
        isolation: int,
        wait_ms: int,
        meanwhile: Callable[[], object] | None = None,
        turns: int = 0,
    ) -> None:
        reader = self.reader
        asks, forgotten = reader.changes()
        asked = request(
            asks,
            session=reader.session,
            forgotten=forgotten,
            wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,
        )
        due = self.due(isolation)
        sessions = len(self.node.fetch_sessions)
        try:
            session, answer = self.run(answered(self.node, asked, meanwhile, turns))
        except KafkaError as problem:
            if problem.code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                raise
            reader.restart()
            return
        if session == NO_SESSION:
            reader.restart()
        else:
            reader.session = (session, reader.session[1] + 1)
            reader.sent = dict(reader.asks)
        got = self._take(answer, isolation)
        if len(self.node.fetch_sessions) < sessions:
            reader.passed_over.clear()
            return  # it has ended meanwhile, maybe before anything was looked at
        due &= self.due(isolation) | got  # the rest has been deleted
        for index in list(reader.passed_over):
            if index not in due or index in got:
                del reader.passed_over[index]
        for index in due - got:
            reader.passed_over[index] = reader.passed_over.get(index, 0) + 1
        if due:
            assert got, f"nothing is returned, though {due} have something"
        assert max(reader.passed_over.values(), default=0) <= PARTITIONS, "a partition is starved"

    def _take(self, answer: Answer, isolation: int) -> set[int]:
        """Read an answer; the partitions that had records in it."""
        got = set()
        for _, results in answer:
            for data in results:
                index = data.partition
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.reader.want(index, offset=self.partition(index).log.start_offset)
                elif data.error_code:
                    assert data.error_code in NOT_SERVED
                    assert index not in self.led
                elif data.records is not None:
                    got.add(index)
                    self._read(index, taken(data.records), isolation)
        return got

    def _read(self, index: int, records: bytes, isolation: int) -> None:
        at = self.reader.asks[index].fetch_offset
        limit = self.partition(index).readable_to(isolation == 1)
        batches = 0
        for _, header in headers(memoryview(records)):
            batches += 1
            assert header.base_offset <= at <= header.last_offset
            at = header.next_offset
        assert batches, f"no whole batch in {len(records)} bytes"
        assert at <= limit
        self.reader.want(index, offset=at)

    @invariant()
    def no_file_is_pinned(self) -> None:
        for partition in self.node.partitions:
            for segment in partition.log.segments:
                assert segment.file.pins == 0

    @invariant()
    def nobody_waits_for_a_session_that_has_ended(self) -> None:
        kept = self.node.fetch_sessions._sessions
        for partition in self.node.partitions:
            for waiting in (*partition._readers, *partition._followers):
                assert isinstance(waiting, CachedPartition)
                assert waiting.session.id in kept

    @invariant()
    def nothing_is_parked(self) -> None:
        assert self.node.delayed.fetches == 0


@pytest.mark.usefixtures("looks_in_turns")
def test_a_reader_makes_progress_whatever_happens(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:

        class OnOneBroker(Progress):
            loop = runner.get_loop()

        broker = running(tmp_path)
        OnOneBroker.node = runner.run(broker.__aenter__())
        try:
            run_state_machine_as_test(
                OnOneBroker,
                settings=settings(
                    max_examples=60, stateful_step_count=60, suppress_health_check=list(HealthCheck)
                ),
            )
        finally:
            runner.run(broker.__aexit__(None, None, None))
