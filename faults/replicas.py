"""Whether all replicas have the same records below the high watermark, and begin where they should.

Rules kept here:
1. Below the high watermark replicas are equal byte for byte. What was compared once is not compared
   again, unless a replica was copied again since.
2. A log start moves only by DeleteRecords here (retention is off): never past what was asked for.
3. Brokers write while this reads, and a replica may lag: only what stays different is a finding.
   Each partition is reported once.
"""

import hashlib
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from faults.groups import Place
from faults.world import World
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from testkit.raw import ClosedError, Connection

EARLIEST, LATEST = -2, -1
LIST_OFFSETS_VERSION = 7
SAME_WITHIN_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 0.3
ANY_OFFSET = 1 << 62
HEADER_BYTES = 61
OVERHEAD = 12
_START = struct.Struct(">qii")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = 23
PROBLEMS = (OSError, ClosedError, AssertionError, LookupError)


class Stored(NamedTuple):
    """One batch as it is in a file."""

    base: int
    next: int
    epoch: int
    digest: bytes


class Partition(NamedTuple):
    """What a leader says of its partition."""

    replicas: list[int]
    log_start: int
    high_watermark: int


def stored(folder: Path, start: int, end: int) -> Iterator[Stored]:
    """The batches of a replica that reach past `start` and end at `end` or before."""
    segments = sorted(folder.glob("*.log"))
    bases = [int(path.stem) for path in segments]
    for path, following in zip(segments, [*bases[1:], None], strict=True):
        if following is not None and following <= start:
            continue
        data = path.read_bytes()
        at = 0
        while at + HEADER_BYTES <= len(data):
            base, length, epoch = _START.unpack_from(data, at)
            after = base + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0] + 1
            behind = at + OVERHEAD + length
            if after > end or behind > len(data):
                return
            if after > start:
                digest = hashlib.blake2b(data[at:behind], digest_size=8).digest()
                yield Stored(base, after, epoch, digest)
            at = behind


def difference(folders: Mapping[int, Path], start: int, high_watermark: int, end: int) -> str:
    """What is not the same in all replicas of a partition up to `end`; empty if nothing."""
    found = {broker: list(stored(folder, start, end)) for broker, folder in folders.items()}
    for broker, batches in found.items():
        reached = batches[-1].next if batches else start
        if reached < high_watermark:
            return f"broker {broker} ends at {reached}, the high watermark is {high_watermark}"
    (first, expected), *others = found.items()
    for broker, batches in others:
        for one, other in zip(expected, batches, strict=False):
            if one != other:
                return (
                    f"broker {first} has offsets {one.base} to {one.next - 1} of epoch "
                    f"{one.epoch}, broker {broker} {other.base} to {other.next - 1} of epoch "
                    f"{other.epoch}" + ("" if one[:3] != other[:3] else ", with other bytes")
                )
        if len(expected) != len(batches):
            return f"broker {first} has {len(expected)} batches, broker {broker} {len(batches)}"
    return ""


class Watch:
    """Looks at the replicas of some topics, again and again."""

    def __init__(
        self, world: World, topics: Mapping[str, int], trimmed: Mapping[Place, int]
    ) -> None:
        self._world = world
        self._topics = topics
        self._trimmed = trimmed
        self._is_over = False
        self._compared: dict[Place, int] = {}
        self._reported: set[Place] = set()

    def look(self, *, all_of_it: bool, is_over: bool = False) -> list[str]:
        """What is wrong now; `all_of_it` compares again what was compared before.

        Once no client writes, replicas are equal above the high watermark, too.
        """
        if all_of_it:
            self._compared.clear()
        self._is_over = is_over
        findings = []
        deadline = time.monotonic() + SAME_WITHIN_SECONDS
        for topic, partitions in self._topics.items():
            for index in range(partitions):
                place = (topic, index)
                if place in self._reported:
                    continue
                if problem := self._until_right(place, deadline):
                    self._reported.add(place)
                    findings.append(f"{topic}-{index}: {problem}")
        return findings

    def _until_right(self, place: Place, deadline: float) -> str:
        while True:
            try:
                problem = self._problem(place)
            except PROBLEMS as unreachable:
                problem = f"cannot be looked at: {unreachable!r}"
            if not problem or time.monotonic() > deadline:
                return problem
            time.sleep(LOOK_AGAIN_SECONDS)

    def _problem(self, place: Place) -> str:
        topic, index = place
        said = self._ask(place)
        if said.log_start > self._trimmed.get(place, 0):
            return (
                f"the log start is {said.log_start}; records were deleted up to "
                f"{self._trimmed.get(place, 0)}"
            )
        folders = {
            each: self._world.broker(each).data / f"{topic}-{index}" for each in said.replicas
        }
        for broker, folder in folders.items():
            first = min((int(path.stem) for path in folder.glob("*.log")), default=-1)
            if first < 0 or first > said.log_start:
                return f"broker {broker} begins at {first}, the leader at {said.log_start}"
        start = max(said.log_start, self._compared.get(place, 0))
        end = ANY_OFFSET if self._is_over else said.high_watermark
        problem = difference(folders, start, said.high_watermark, end)
        if not problem:
            self._compared[place] = said.high_watermark
        return problem

    def _ask(self, place: Place) -> Partition:
        topic, index = place
        found = self._world.look(topic)
        if found is None:
            raise OSError("no broker answers")
        part = next(each for each in found.topics[0].partitions if each.partition_index == index)
        offsets = []
        with Connection(self._world.broker(part.leader_id).bootstrap, patience=5) as connection:
            for asked in (EARLIEST, LATEST):
                request = ListOffsetsRequest(
                    replica_id=-1,
                    topics=[
                        ListOffsetsTopic(
                            name=topic,
                            partitions=[
                                ListOffsetsPartition(partition_index=index, timestamp=asked)
                            ],
                        )
                    ],
                )
                answer = connection.ask(request, ListOffsetsResponse, LIST_OFFSETS_VERSION)
                told = answer.topics[0].partitions[0]
                if told.error_code:
                    raise OSError(f"ListOffsets: error {told.error_code}")
                offsets.append(told.offset)
        return Partition(part.replica_nodes, *offsets)
