"""One broker: its data folder, metadata image and partitions, from start to stop.

Rules kept here:
1. The image is what the store says; nothing changes topics but a commit to the store. Changes come
   back through the watch and are carried out in their order, also our own.
2. A request that changed the store is answered when its change is carried out here.
3. After an unclean stop the partitions are opened one by one, and those open are served meanwhile.
4. The clean-shutdown marker is written only after every log was flushed and closed.
"""

from __future__ import annotations

import asyncio
import resource
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeVar

import structlog
from msgspec.structs import replace

from ottla.broker.audit.log_counts import Audit
from ottla.broker.coordinators.coordinators import Coordinators
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.shard_runner import ShardRunner
from ottla.broker.coordinators.transactions import Transactions, marker_batch
from ottla.broker.logs.cleaner import Cleaner
from ottla.broker.logs.closing import close_logs
from ottla.broker.logs.flusher import Flusher
from ottla.broker.logs.full_disk import FullDisk
from ottla.broker.logs.log_settings import log_config
from ottla.broker.logs.maintenance import Maintenance
from ottla.broker.logs.opening import LogOpener
from ottla.broker.logs.removing import delete_topic, give_up_replicas, set_topic_aside
from ottla.broker.logs.storage import storage_of
from ottla.broker.metadata.auto_topic_creation import WishedTopics
from ottla.broker.metadata.controller import Control
from ottla.broker.metadata.kept_answers import KeptAnswers
from ottla.broker.metadata.leader_balance import LeaderBalance
from ottla.broker.metadata.membership import Membership
from ottla.broker.metadata.own_address import own_host, warn_of_lost_clients
from ottla.broker.metadata.producer_ids import ProducerIdSource
from ottla.broker.metadata.stores import METADATA_FILE, open_store, own_file
from ottla.broker.metrics.counters import TopicMetrics
from ottla.broker.replicas.decoding import Decoding
from ottla.broker.replicas.fetch_sessions import FetchSessions
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.replicas.refusals import Refusals
from ottla.broker.replication.link_security import LinkSecurity
from ottla.broker.replication.peers import Peers
from ottla.broker.replication.roles import Roles
from ottla.broker.scheduling.background import Background
from ottla.broker.start_error import StartError
from ottla.config import BrokerConfig, ConfigError
from ottla.config.listeners import Listener
from ottla.config.topic_names import GROUP_METADATA, TRANSACTION_STATE
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import Files
from ottla.log.storage.folder import DataFolder, FolderError, uuid_to_text
from ottla.metadata import documents
from ottla.metadata.clock import boottime
from ottla.metadata.controller import has_controller
from ottla.metadata.elections import NO_LEADER
from ottla.metadata.image import NO_EPOCH, Delta, Image, TopicImage
from ottla.metadata.store import Change, Conflict, Create, HistoryLost, Op, Store, StoreError
from ottla.metadata.topics import NewTopic
from ottla.records.control import Marker
from ottla.security.listeners import link_settings
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

_CHANCE = Random()  # of its own: a program that embeds a broker may seed the other
CONFLICTS_BEFORE_GIVING_UP: Final = 20
EXPLAINED_BY_LAG: Final = frozenset(
    {
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
COLD_READERS: Final = 2
"""Threads for what is not in the page cache. Each competes with the loop for the interpreter's lock
after every read: with six of them the p99 of a small produce was twice as long."""
T = TypeVar("T")


class Leader(NamedTuple):
    """Who leads a partition (-1: nobody now), and which of its replicas are in sync or offline."""

    id: int
    epoch: int
    isr: list[int]
    offline: list[int]


class Node:
    """A broker without its sockets."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.id = config.node_id
        self.partitions = Partitions()
        self.topic_metrics: dict[str, TopicMetrics] = {}
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, lambda: _CHANCE.randrange(1, 2**31)
        )
        self.parked_fetches = 0
        self.parked_produces = 0
        self.refusals = Refusals()
        self.metadata_changes = 0
        self.kept_answers = KeptAnswers(self)
        self.wished_topics = WishedTopics(self)
        self.lingering: list[ShardRunner[Any]] = []
        """The coordinators with records that are not appended yet."""
        self.loading = asyncio.Lock()
        """Held by the coordinator that is loaded: a broker may get dozens at once, and each takes
        turns of the loop."""
        self.image = Image()
        self.ready = False
        self.running = False
        self.on_end: Callable[[str], object] = lambda _: None
        """Called where the broker cannot go on, with the reason in one line."""
        self.away = False
        """True while this broker is outside of the cluster and cannot reach the store: it leads and
        coordinates nothing, and does not know who does. Clients are better served elsewhere."""
        self.on_away: Callable[[], object] = lambda: None
        self.ports: Mapping[str, int] = {}
        self.advertised: tuple[Listener, ...] = ()
        self.flusher = Flusher()
        self.maintenance = Maintenance(self)
        self.folder: DataFolder
        self.files = Files()
        self.full_disk = FullDisk(self)
        self.files.on_full = self.full_disk.refused
        self.file_cache = FileCache(_open_files_limit(), self.files)
        self.cold_readers = ThreadPoolExecutor(COLD_READERS, "ottla-cold-reads")
        self.decoding = Decoding()
        self._store: Store | None = None
        self._opener: LogOpener | None = None
        self._deltas: deque[Delta] = deque()
        self._carrying_out: asyncio.Task[None] | None = None
        self.background = Background()
        self.producer_ids = ProducerIdSource(self)
        self.membership = Membership(self)
        self.control = Control(self)
        self.balance = LeaderBalance(self)
        self.roles = Roles(self)
        self.link_security = LinkSecurity(link_settings(config))
        self.peers = Peers(self)
        self.transactions = Transactions(self)
        self.groups = Groups(self)
        self.cleaner = Cleaner(self)
        self.audit = Audit(self)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it."""
        return self.image.cluster_id or ""

    @property
    def store(self) -> Store:
        """The metadata store, while the broker is open."""
        assert self._store is not None
        return self._store

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 before it has one."""
        return self.membership.epoch

    @property
    def controller_id(self) -> int:
        """The broker that clients send changes of topics to. Any broker would do."""
        controller = self.image.controller
        if controller is None or not has_controller(self.image):
            return self.id
        return controller.broker

    def leader_of(self, topic: str, index: int) -> Leader:
        """Who leads a partition. One that should be led here and is not open has no leader."""
        state = self.image.partitions.get((topic, index))
        if state is None:
            return Leader(NO_LEADER, 0, [], [])
        brokers = self.image.brokers
        replicas = self.image.topics[topic].assignment[index]
        offline = [one for one in replicas if one not in brokers]
        isr = state.isr
        if self.id in replicas:
            partition = self.partitions.get(topic, index)
            if partition is None or partition.log.offline:
                offline.append(self.id)
                isr = [one for one in isr if one != self.id]
        leader = state.leader if state.leader not in offline else NO_LEADER
        if leader == self.id and self.broker_epoch == NO_EPOCH:
            leader = NO_LEADER  # others have taken its place; who, it cannot know yet
        return Leader(leader, state.leader_epoch, isr, offline)

    def holds_lease(self) -> bool:
        """Whether nobody can have taken this broker's place without its knowing."""
        lease = self.membership.lease
        return lease is None or lease.held(boottime())

    def check_lease(self) -> None:
        """Refuse to answer on our own where the lease is over; raises KafkaError."""
        if not self.holds_lease():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker may have been replaced")

    def now_ms(self) -> int:
        """The time, in milliseconds since 1970: for what is kept, or told to clients.

        The clock can be set. What is measured in elapsed time uses `elapsed_ms` or the loop's time.
        """
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment. Nobody can set this clock."""
        return time.monotonic_ns() // 1_000_000

    # Starting and stopping ----------------------------------------------------------------

    async def open(self) -> None:
        """Take the data folder and read the metadata; nothing is served yet."""
        path = Path(self.config.log_dirs[0])
        self.folder = DataFolder(path, self.files)
        try:
            self.folder.lock()
            alone = own_file(self.config)
            if alone is not None and not self.files.exists(str(alone)):
                # Before the store makes a new one: its files would not go with one put back.
                self._check_that_nothing_is_lost()
            self._store = await open_store(self.config)
            self._store.on_session_end(self.membership.session_ended)
            self.image = Image.of(await self._store.watch(self._on_changes))
            await self._identify()
        except (StoreError, FolderError) as problem:
            await self.close()
            raise StartError(str(problem)) from None
        except OSError as problem:
            await self.close()
            raise StartError(f"cannot use data folder {path}: {problem.strerror}") from None
        self._apply_dynamic_config()
        self.running = True

    async def _identify(self) -> None:
        """Have a cluster id, and see that folder and store belong together."""
        assert self._store is not None
        if self.image.cluster_id is None:
            self._check_that_nothing_is_lost()
            meta = self.folder.read_meta()
            cluster_id = uuid_to_text(uuid.uuid4()) if meta is None else meta.cluster_id
            value = documents.encode(documents.ClusterInfo(cluster_id))
            await self.change(
                lambda image: (
                    None,
                    [] if image.cluster_id else [Create(documents.CLUSTER, value)],
                )
            )
        self.membership.storage = storage_of(self.folder, self.cluster_id, self.id)

    def _check_that_nothing_is_lost(self) -> None:
        """There is no metadata: refuse a folder that had some, or its topics would be forgotten."""
        if self.folder.read_meta() is not None and self.folder.partitions():
            where = f"its {METADATA_FILE}" if own_file(self.config) else self.config.ottla_store
            raise FolderError(
                f"{self.folder.path} holds partitions, but {where} is missing or "
                "empty; restore it, or choose another folder"
            )

    async def start(self, ports: Mapping[str, int]) -> None:
        """Open the logs and register, with the ports that the listeners were bound to."""
        self.advertised = tuple(self.config.advertised(ports, own_host()))
        try:
            self._opener = LogOpener(self)
        except OSError as problem:
            raise StartError(f"cannot use data folder {self.folder.path}: {problem}") from None
        self.ports = ports
        self.full_disk.keep_reserve()
        await self.membership.join()
        await self.caught_up()
        await self.control.settle()
        await self._opener.open_all()
        await self.roles.claims.settle()
        self.roles.start()
        self.balance.start()
        self.maintenance.start()
        self.cleaner.start()
        try:
            self.audit.start()
        except ValueError as problem:
            raise StartError(
                f"ottla.audit.topics is not a valid regular expression: {problem}"
            ) from None
        bound = [replace(each, port=ports[each.name]) for each in self.config.bound_listeners]
        log.info(
            "broker started",
            listeners=", ".join(map(str, bound)),
            advertised=", ".join(map(str, self.advertised)),
            id=self.id,
            data=str(self.folder.path),
            topics=len(self.image.topics),
            partitions=len(self.partitions),
        )
        warn_of_lost_clients(self.config, self.advertised)

    async def close(self) -> None:
        """Flush and close everything; after a failed start, what there is of it."""
        was_running, self.running = self.running, False
        await self.membership.stop()
        await self.control.stop()
        await self.balance.stop()
        await self.roles.stop()
        self.transactions.stop()
        self.groups.stop()
        await self.audit.stop()
        self.peers.close()
        await self.cleaner.stop()
        await self._end_background()
        await self.maintenance.stop()
        self.cold_readers.shutdown(wait=False)
        self.decoding.stop()
        if was_running and self.ports and self._opener is not None:
            await self._opener.stop()
            clean = await close_logs(self) and self._opener.all_open
            try:
                await self.maintenance.checkpoint()
                if clean:
                    self.folder.write_clean_mark()
            except OSError as problem:
                log.error("failed to write checkpoints", reason=str(problem))
        try:
            if self._store is not None:
                await self._store.close()
        except StoreError as problem:  # nothing is lost: the next start ends the old session
            log.error("failed to close the metadata store", reason=str(problem))
        self.folder.unlock()

    async def _end_background(self) -> None:
        """Let flushes end. A change of metadata half carried out waits for the next start."""
        self.wished_topics.stop()
        tasks = [*self.background]
        if self._carrying_out is not None:
            self._carrying_out.cancel()
            tasks.append(self._carrying_out)
        await asyncio.gather(*tasks, return_exceptions=True)

    # Metadata -----------------------------------------------------------------------------

    async def change(
        self,
        decide: Callable[[Image], tuple[T, list[Op]]],
        refusals: Callable[[T], Iterable[KafkaError]] = lambda _: (),
    ) -> T:
        """Decide on the image, commit, and return when the change is carried out here.

        `decide` is asked again when another broker was faster. It refuses with a KafkaError, which
        passes through, or with some in its result (`refusals`). A refusal that an image which lags
        could explain is decided once more on what the store has now: a client may have asked
        another broker for a change just before.
        """
        assert self._store is not None
        is_fresh = False
        for _ in range(CONFLICTS_BEFORE_GIVING_UP):
            try:
                result, ops = decide(self.image)
                refused = [*refusals(result)]
            except KafkaError as problem:
                if is_fresh or problem.code not in EXPLAINED_BY_LAG:
                    raise
                refused = [problem]
            if not is_fresh and any(each.code in EXPLAINED_BY_LAG for each in refused):
                await self._learn_what_is_stored()
                is_fresh = True
                continue
            if ops:
                try:
                    await self._store.commit(ops)
                except Conflict:
                    await self._learn_what_is_stored()
                    continue
                await self.caught_up()
            return result
        raise StoreError("too many concurrent changes of the metadata; try again")

    async def _learn_what_is_stored(self) -> None:
        """Have everything in the image that was committed until now."""
        await self.store.catch_up()
        await self.caught_up()

    async def caught_up(self) -> None:
        """Wait until everything that the store has told is carried out."""
        # The store announces a commit to the loop before the commit returns.
        await asyncio.sleep(0)
        while self._carrying_out is not None:
            await asyncio.shield(self._carrying_out)

    async def renew_store(self) -> None:
        """Begin a new session, and learn what has changed since the last one ended.

        Raises StoreError, also where that is an older copy, or another cluster's: its topics are
        not those of this broker's logs. All of the image is read again, so that it never goes back.
        """
        assert self._store is not None
        known = self._store.position()
        await self._store.close()
        store = await open_store(self.config)
        try:
            await store.check_history(known)
            store.on_session_end(self.membership.session_ended)
            snapshot = await store.watch(self._on_changes)
            found = Image.of(each for each in snapshot if each.key == documents.CLUSTER)
            if found.cluster_id != self.image.cluster_id:
                raise HistoryLost(self.config.ottla_store)
        except BaseException:
            await store.close()
            raise
        self._store = store
        self._on_changes(self.image.changes_to(snapshot))
        await self.caught_up()

    def _on_changes(self, changes: list[Change]) -> None:
        self.metadata_changes += 1
        delta = self.image.apply(changes)
        self._deltas.append(delta)
        self.control.learned(delta)
        if self._carrying_out is None:
            self._carrying_out = asyncio.get_running_loop().create_task(self._carry_out())

    async def _carry_out(self) -> None:
        try:
            while self._deltas:
                try:
                    await self._carry_out_one(self._deltas.popleft())
                except Exception:  # the next ones are carried out all the same
                    log.exception("failed to apply a metadata change")
        finally:
            self._carrying_out = None

    async def _carry_out_one(self, delta: Delta) -> None:
        opener = self._opener
        if opener is None:
            return  # the opener takes what the image has when it is made
        for topic in delta.deleted_topics:
            await delete_topic(self, opener, topic)
        for topic in delta.missing_topics:
            await set_topic_aside(self, opener, topic)
        for topic in (*delta.created_topics, *delta.changed_topics):
            try:
                await give_up_replicas(self, opener, topic)
                await opener.open_new_partitions(topic)
                self._configure_topic(topic)
            except Exception:  # the others are served, and every role is taken
                log.exception("failed to open topic", topic=topic.name)
        self.roles.learned(delta)
        opener.lost.learned(delta)
        gone = delta.deleted_topics or delta.missing_topics
        if delta.created_topics or gone or delta.changed_topics:
            self.groups.topics_changed(delta.deleted_topics)
        if delta.changed_broker_configs:
            self._apply_dynamic_config()

    def serve(self, partition: Partition) -> None:
        """A partition is open: serve it in the role that it has."""
        self.partitions.put(partition)
        self.roles.opened(partition)

    def begins_to_lead(self, partition: Partition) -> None:
        """A partition is led here: serve what it coordinates."""
        coordinators = self._coordinators_of(partition.topic)
        if coordinators is not None:
            coordinators.opened(partition)

    def ends_to_lead(self, partition: Partition) -> None:
        """A partition is led here no more."""
        coordinators = self._coordinators_of(partition.topic)
        if coordinators is not None:
            coordinators.closed(partition)

    def _coordinators_of(self, topic: str) -> Coordinators[Any] | None:
        if topic == GROUP_METADATA:
            return self.groups
        return self.transactions if topic == TRANSACTION_STATE else None

    def write_out(self) -> set[int]:
        """Append what coordinators let linger; the connections whose replies may not leave."""
        lingering, self.lingering = self.lingering, []
        lost: set[int] = set()
        for runner in lingering:
            lost |= runner.write_out()
        return lost

    def new_topic(self, name: str) -> NewTopic:
        """A topic as it is made where a client only named it."""
        coordinators = self._coordinators_of(name)
        return NewTopic(name) if coordinators is None else coordinators.new_topic()

    def end_transaction(
        self, partition: Partition, marker: Marker, transaction_version: int
    ) -> None:
        """Write a transaction's marker into a partition; raises KafkaError."""
        if partition.topic == GROUP_METADATA:
            self.groups.write_out(partition.index)
        now = self.now_ms()
        partition.append_marker(marker_batch(marker, now), now, transaction_version)
        if partition.topic == GROUP_METADATA:
            self.groups.transaction_ended(partition.index, marker)

    def _configure_topic(self, topic: TopicImage) -> None:
        settings = log_config(topic.configs, self.config)
        for partition in self.partitions.of_topic(topic.name):
            if partition.log.config != settings:
                partition.log.set_config(settings)
                self.roles.configured(partition)

    def _apply_dynamic_config(self) -> None:
        default = self.image.broker_configs.get(None)
        own = self.image.broker_configs.get(self.id)
        try:
            self.config = self.config.with_dynamic(
                default.configs if default else {}, own.configs if own else {}
            )
        except ConfigError as problem:
            log.error("dynamic settings are invalid; ignoring them", reason=str(problem))
            return
        self.fetch_sessions.slots = self.config.max_incremental_fetch_session_cache_slots
        for topic in self.image.topics.values():
            self._configure_topic(topic)

    async def new_producer_id(self) -> int:
        """An id that no producer has had."""
        return await self.producer_ids.next()

    def metrics_of(self, topic: str) -> TopicMetrics:
        """The counters of a topic."""
        found = self.topic_metrics.get(topic)
        if found is None:
            found = self.topic_metrics[topic] = TopicMetrics()
        return found


def _open_files_limit() -> int:
    """Most of what the process may have open is for logs, as long as clients do not need it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft, 1 << 20) * 7 // 8)
