"""What people do to a running cluster: move replicas, delete topics and records.

Rules kept here:
1. Each is done beside the faults of a step, on a thread of its own, and tried again until brokers
   have taken it. It must come to its end soon after all faults have been healed.
2. Reassign and cancel: a partition of `moved` gets another broker, the move is cancelled, and asked
   for again, at any moment. Alone, the leader may be cut off from the store meanwhile, so that it
   sees only the last of these states; and it is killed once the new replica is in sync.
3. Delete records: `trimmed` loses what is below an offset that was acknowledged.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from faults.groups import Place
from faults.plan import Fault, Kind
from faults.recreated import Recreated
from faults.world import BROKERS, SESSION_SECONDS, World
from ottla.wire.message import Message
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.messages.metadata import MetadataResponsePartition
from testkit.proxy import Mode
from testkit.raw import ClosedError, Connection
from testkit.waiting import until

R = TypeVar("R", bound=Message)
T = TypeVar("T")

MOVED = "moved"
TRIMMED = "trimmed"
PARTITIONS = 3
ASK_SECONDS = 3.0
DONE_WITHIN_SECONDS = 120.0
TO_HIGH_WATERMARK = -1
UNREACHABLE = (OSError, ClosedError, LookupError, AssertionError)


class Operator:
    """Does one thing at a time."""

    def __init__(self, world: World, recreated: Recreated, seed: int) -> None:
        self._world = world
        self._recreated = recreated
        self._rng = random.Random(f"operator {seed}")
        self._thread: threading.Thread | None = None
        self._end = 0.0
        self.trimmed: dict[Place, int] = {}
        """Up to where records were deleted, or may have been."""
        self.findings: list[str] = []

    def begin(self, fault: Fault, *, alone: bool, note: Callable[[str], None]) -> None:
        """Start with it."""
        self._end = time.monotonic() + fault.seconds + DONE_WITHIN_SECONDS
        match fault.kind:
            case Kind.REASSIGN:
                work = lambda: self._reassign(fault, alone, note)  # noqa: E731
            case Kind.RECREATE:
                work = lambda: self._recreated.recreate(self._end, note)  # noqa: E731
            case _:
                work = lambda: self._trim(fault, note)  # noqa: E731
        self._thread = threading.Thread(
            target=self._run, args=(work, fault.kind), name=fault.kind, daemon=True
        )
        self._thread.start()

    def finish(self) -> None:
        """Wait for its end: all faults of the step are healed."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, work: Callable[[], None], kind: Kind) -> None:
        try:
            work()
        except Exception as problem:  # noqa: BLE001 it is reported
            self.findings.append(f"{kind}: {problem!r}")

    # Reassign and cancel ------------------------------------------------------------------

    def _reassign(self, fault: Fault, alone: bool, note: Callable[[str], None]) -> None:
        world, rng = self._world, self._rng
        index = fault.lot % PARTITIONS
        before = self._insist(lambda: self._partition(index))
        leader = before.leader_id
        spare = next(number for number in range(BROKERS) if number not in before.replica_nodes)
        stays = rng.choice(before.replica_nodes)
        target = rng.choice(([spare, stays], [stays, spare]))
        blind = alone and fault.silent and world.has_zookeeper
        for _ in range(rng.randrange(1, 4)):
            note(f"  {MOVED}-{index} of {before.replica_nodes}, leader {leader}, to {target}")
            self._move(index, target)
            if rng.random() < 0.7:
                self._wait_for(lambda: spare in self._partition(index).isr_nodes, 3.0)
            else:
                time.sleep(rng.uniform(0.0, 1.0))
            if blind:
                world.set_store(leader, Mode.SILENT)
            try:
                self._move(index, None)
                note(f"  {MOVED}-{index}: cancelled{', unseen by its leader' if blind else ''}")
                time.sleep(rng.choice((0.0, rng.uniform(0.0, 1.0))))
                self._move(index, target)
                time.sleep(rng.choice((0.0, rng.uniform(0.0, 0.5))))
            finally:
                if blind:
                    world.set_store(leader, Mode.OPEN)
        if alone and rng.random() < 0.7:
            self._wait_for(lambda: spare in self._partition(index).isr_nodes, 3.0)
            victim = max(0, self._insist(lambda: self._partition(index)).leader_id)
            note(f"  {victim}: kill -9 of the leader of {MOVED}-{index}")
            world.kill(victim)
            time.sleep(rng.uniform(0.0, 2 * SESSION_SECONDS))
            world.start(victim)
        self._insist(self._check_nothing_moves)

    def _partition(self, index: int) -> MetadataResponsePartition:
        found = self._world.look(MOVED)
        if found is None:
            raise OSError("no broker answers")
        return next(each for each in found.topics[0].partitions if each.partition_index == index)

    def _move(self, index: int, replicas: list[int] | None) -> None:
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=MOVED,
                    partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
                )
            ]
        )
        # A cancel may come too late, or the answer to one that was taken may be lost.
        ends = time.monotonic() + ASK_SECONDS * 2
        while time.monotonic() < ends:
            answer = self._insist(
                lambda: self._ask_any(request, AlterPartitionReassignmentsResponse, 1)
            )
            told = answer.responses[0].partitions[0].error_code if answer.responses else -1
            if not answer.error_code and (not told or replicas is None):
                return
            time.sleep(0.1)

    def _check_nothing_moves(self) -> None:
        answer = self._ask_any(
            ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, 0
        )
        if answer.topics:
            raise OSError(f"replicas are still moved: {answer.topics}")

    # Delete records -----------------------------------------------------------------------

    def _trim(self, fault: Fault, note: Callable[[str], None]) -> None:
        place = (TRIMMED, fault.lot % PARTITIONS)
        # Whatever becomes of the request, the log start may be anywhere up to the log's end.
        self.trimmed[place] = 1 << 62
        low = self._insist(lambda: self._delete_records(place))
        self.trimmed[place] = low
        note(f"  {place[0]}-{place[1]}: records below {low} deleted")

    def _delete_records(self, place: Place) -> int:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=place[0],
                    partitions=[
                        DeleteRecordsPartition(partition_index=place[1], offset=TO_HIGH_WATERMARK)
                    ],
                )
            ],
            timeout_ms=int(ASK_SECONDS * 1000),
        )
        leader = self._world.leader(*place)
        if leader < 0:
            raise OSError("nobody leads")
        bootstrap = self._world.broker(leader).bootstrap
        with Connection(bootstrap, patience=2 * ASK_SECONDS) as connection:
            answer = connection.ask(request, DeleteRecordsResponse, 2)
        told = answer.topics[0].partitions[0]
        if told.error_code:
            raise OSError(f"DeleteRecords: error {told.error_code}")
        return told.low_watermark

    # Asking -------------------------------------------------------------------------------

    def _ask_any(self, request: Message, response: type[R], version: int) -> R:
        brokers = [each for each in self._world.brokers.brokers if each.is_running]
        broker = self._rng.choice(brokers)
        with Connection(broker.bootstrap, patience=ASK_SECONDS) as connection:
            return connection.ask(request, response, version)

    def _insist(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer; raises the last problem long after all faults."""
        while True:
            try:
                return ask()
            except UNREACHABLE:
                if time.monotonic() > self._end:
                    raise
            time.sleep(0.1)

    @staticmethod
    def _wait_for(claim: Callable[[], bool], seconds: float) -> None:
        """Wait for it, but not for long: the point is the moment, not that it comes."""

        def attempt() -> bool:
            try:
                return claim()
            except UNREACHABLE:
                return False

        try:
            until(attempt, "", seconds)
        except TimeoutError:
            pass
