"""Opening the logs of this broker's partitions.

Rules kept here:
1. After a clean stop a log is opened at once: names and sizes are read, records are not.
2. After an unclean one what lies past the recovery point is scanned. A small scan is done in place;
   larger ones by a child process, one partition after the other, because Python work of seconds
   would stall the loop. Partitions that are open are served meanwhile.
3. A log that cannot be opened takes its partition offline (KAFKA_STORAGE_ERROR), not the broker.
4. Opening many gives way to clients.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from ottla.broker.log_settings import log_config
from ottla.broker.partition import Partition
from ottla.cluster.image import TopicImage
from ottla.log.folder import RECOVERY_POINTS, START_OFFSETS, FolderError
from ottla.log.log import Log
from ottla.log.recovery import Recovered, needs_recovery_bytes, recover
from ottla.log.scan import CorruptLog
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()

SCANNED_IN_PLACE: Final = 1 << 20
"""A scan of so many bytes takes milliseconds; starting a child takes longer."""
OPENED_IN_ONE_TURN: Final = 20


class _Place(NamedTuple):
    topic: TopicImage
    partition: int
    directory: Path
    recovery_point: int
    start_offset: int


class LogOpener:
    """Opens logs for one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._recovering: asyncio.Task[None] | None = None
        self.all_open = True
        folder = node.folder
        self._recovery_points = folder.read_checkpoint(RECOVERY_POINTS)
        self._start_offsets = folder.read_checkpoint(START_OFFSETS)
        self._clean = folder.take_clean_mark()

    async def open_all(self) -> None:
        """Open every partition of the image; large recoveries go on after this returns."""
        self._sweep()
        large: list[tuple[int, _Place]] = []
        opened = 0
        for topic in list(self._node.image.topics.values()):
            self._node.partitions.expect(topic.name, topic.id, len(topic.assignment))
            for index in range(len(topic.assignment)):
                place = self._place(topic, index)
                to_scan = 0 if self._clean else self._bytes_to_scan(place)
                if to_scan > SCANNED_IN_PLACE:
                    large.append((to_scan, place))
                else:
                    self._open(place, clean=self._clean or to_scan == 0)
                opened += 1
                if opened % OPENED_IN_ONE_TURN == 0:
                    await asyncio.sleep(0)
        if large:
            self.all_open = False
            large.sort(key=lambda each: each[0])
            places = [place for _, place in large]
            total = sum(size for size, _ in large)
            log.info("recovering logs after an unclean stop", partitions=len(large), bytes=total)
            self._recovering = asyncio.get_running_loop().create_task(self._recover_all(places))

    async def open_new_partitions(self, topic: TopicImage) -> None:
        """Open the partitions of a topic that are not known yet."""
        partitions = self._node.partitions
        known = partitions.count_of(topic.name)
        partitions.expect(topic.name, topic.id, len(topic.assignment))
        for index in range(known, len(topic.assignment)):
            self._open(self._place(topic, index), clean=True)
            if index % OPENED_IN_ONE_TURN == OPENED_IN_ONE_TURN - 1:
                await asyncio.sleep(0)

    async def stop(self) -> None:
        """Give up recoveries that are under way; they are done again at the next start."""
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)

    def _place(self, topic: TopicImage, index: int) -> _Place:
        key = (topic.name, index)
        return _Place(
            topic,
            index,
            self._node.folder.path / f"{topic.name}-{index}",
            self._recovery_points.get(key, 0),
            self._start_offsets.get(key, 0),
        )

    def _bytes_to_scan(self, place: _Place) -> int:
        try:
            return needs_recovery_bytes(place.directory, place.recovery_point, self._node.files)
        except OSError:  # opening it says what is wrong
            return 0

    def _open(self, place: _Place, *, clean: bool) -> None:
        node = self._node
        topic = place.topic
        try:
            self._prepare(place)
            settings = log_config(topic.configs, node.config)
            if clean:
                opened = Log.open(
                    place.directory,
                    settings,
                    files=node.files,
                    cache=node.file_cache,
                    recovery_point=place.recovery_point,
                    start_offset=place.start_offset,
                    clean=True,
                    now=node.now_ms(),
                )
            else:
                opened, found = recover(
                    place.directory,
                    settings,
                    files=node.files,
                    cache=node.file_cache,
                    recovery_point=place.recovery_point,
                    start_offset=place.start_offset,
                    now=node.now_ms(),
                )
                _tell(place, found)
        except (OSError, CorruptLog, FolderError) as problem:
            self._failed(place, str(problem))
            return
        self._serve(place, opened)

    def _prepare(self, place: _Place) -> None:
        """Have a folder that belongs to this topic and not to an older one of the same name."""
        folder = self._node.folder
        found = folder.read_topic_id(place.directory)
        if found is not None and found != place.topic.id:
            stray = place.directory.with_name(f"{place.directory.name}.{found.hex}-stray")
            log.warning(
                "a folder of another topic with this name is set aside",
                folder=place.directory.name,
                now=stray.name,
            )
            self._node.files.rename(str(place.directory), str(stray))
            found = None
        if found is None:
            place.directory.mkdir(exist_ok=True)
            folder.write_topic_id(place.directory, place.topic.id)

    def _sweep(self) -> None:
        """Finish deletions that a stop interrupted, and tell of folders that nobody claims."""
        folder = self._node.folder
        for directory in folder.deleted():
            self._node.maintenance.remove_directory(directory)
        unknown = [
            f"{each.topic}-{each.partition}"
            for each in folder.partitions()
            if (each.topic, each.partition) not in self._node.image.partitions
        ]
        if unknown:
            log.warning(
                "folders that belong to no topic are left alone",
                count=len(unknown),
                folders=", ".join(unknown[:10]),
            )

    def _serve(self, place: _Place, opened: Log) -> None:
        node = self._node
        topic = node.image.topics.get(place.topic.name)
        if topic is None or topic.id != place.topic.id:
            opened.close()  # deleted while it was recovered; the folder is swept at the next start
            return
        state = node.image.partitions.get((topic.name, place.partition))
        node.serve(
            Partition(
                topic.name,
                topic.id,
                place.partition,
                0 if state is None else state.leader_epoch,
                opened,
                node.metrics_of(topic.name),
                node.maintenance.flush_later,
            )
        )

    def _failed(self, place: _Place, reason: str) -> None:
        self.all_open = False
        log.error("a partition is offline", partition=place.directory.name, reason=reason)
        self._node.partitions.put_failed(
            place.topic.name, place.partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        )

    # Recovery in a child process -----------------------------------------------------------

    async def _recover_all(self, places: list[_Place]) -> None:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ottla.log.recovery",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            for number, place in enumerate(places, 1):
                child.stdin.write(self._order(place))
                await child.stdin.drain()
                line = await child.stdout.readline()
                if not line:
                    self._failed(place, "the recovery process ended unexpectedly")
                    continue
                self._recovered(place, json.loads(line), number, len(places))
            self.all_open = not self._node.partitions.offline_count()
            log.info("all logs are recovered", partitions=len(places))
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()

    def _order(self, place: _Place) -> bytes:
        settings = asdict(log_config(place.topic.configs, self._node.config))
        settings["cleanup_policy"] = sorted(settings["cleanup_policy"])
        order = {
            "directory": str(place.directory),
            "recovery_point": place.recovery_point,
            "start_offset": place.start_offset,
            "config": settings,
        }
        return json.dumps(order).encode() + b"\n"

    def _recovered(self, place: _Place, reply: dict[str, Any], number: int, of: int) -> None:
        if "error" in reply:
            self._failed(place, reply["error"])
            return
        del reply["directory"]
        found = Recovered(**reply)
        _tell(place, found)
        log.info("recovered", partition=place.directory.name, done=number, of=of)
        self._open(
            place._replace(recovery_point=found.recovery_point, start_offset=found.start_offset),
            clean=True,
        )


def _tell(place: _Place, found: Recovered) -> None:
    if found.truncated_bytes:
        log.warning(
            "a torn tail was cut",
            partition=place.directory.name,
            bytes=found.truncated_bytes,
            end_offset=found.end_offset,
            reason=found.problem,
        )
