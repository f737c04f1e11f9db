"""Opening the logs of this broker's partitions.

Rules kept here:
1. After a clean stop a log is opened at once: names and sizes are read, records are not.
2. After an unclean one what lies past the recovery point is scanned. A small scan is done in place;
   larger ones by a child process, one partition after the other, because Python work of seconds
   would stall the loop. Partitions that are open are served meanwhile.
3. A log that cannot be opened takes its partition offline (KAFKA_STORAGE_ERROR), not the broker.
   Where the disk was only full, or too many files were open, it is tried again. A log that a full
   disk keeps from being recovered is recovered in memory, so that it can be read and deleted.
4. Opening many gives way to clients, and to the session with the metadata store.
5. What a checkpoint says was on disk and is gone is an error, never an empty log
   without a word (see `lost_logs`).
6. A folder belongs to a topic's id, not to its name (see `partition_folders`). Nobody works on a
   folder when its topic goes.
7. Only replicas that are assigned to this broker are opened.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import structlog

from ottla.broker.context.broker_context import BrokerContext
from ottla.broker.logs.checkpoints import Key
from ottla.broker.logs.log_dir import LogDir
from ottla.broker.logs.log_manager import LogManager
from ottla.broker.logs.log_settings import log_config
from ottla.broker.logs.lost_logs import LostLogs
from ottla.broker.logs.memory_recovery import NO_ROOM, MemoryRecovery
from ottla.broker.logs.partition_folders import (
    LocalReplica,
    OfAnotherTopicError,
    PartitionFolders,
)
from ottla.broker.logs.recovery_process import RecoveryProcess
from ottla.broker.logs.strays import StraySweep
from ottla.broker.metrics.counters import TopicMetrics
from ottla.broker.replicas.isr_leaving import IsrLeaving
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.partitions import Partitions
from ottla.broker.scheduling.background import Background
from ottla.broker.scheduling.turns import Turns
from ottla.log.log import Log
from ottla.log.recovery.recovery import Recovered, needs_recovery_bytes, recover
from ottla.log.segments.scan import CorruptLog
from ottla.log.storage.file_cache import FileCache
from ottla.log.storage.files import DISK_IS_FULL, Files
from ottla.log.storage.folder import FolderError
from ottla.metadata.image import TopicImage
from ottla.wire.errors import ErrorCode, KafkaError

log = structlog.get_logger()

SCANNED_IN_PLACE: Final = 256 << 10
"""A scan of this many bytes takes milliseconds, tens of them where all batches are tiny; starting a
child takes longer."""
TRY_AGAIN_SECONDS: Final = 5.0
MAY_PASS: Final = DISK_IS_FULL | {errno.EAGAIN}
"""The last is the error of a system that cannot start more processes."""


class LogLoader:
    """Opens logs for one broker."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        log_dir: LogDir,
        partitions: Partitions,
        log_manager: LogManager,
        isr_leaving: IsrLeaving,
        background: Background,
        metrics_of: Callable[[str], TopicMetrics],
        serve: Callable[[Partition], None],
    ) -> None:
        """`serve` is called with each partition that was opened."""
        broker, config, clock, image = context
        self._broker = broker
        self._config = config
        self._clock = clock
        self._image = image
        self._log_dir = log_dir
        self._partitions = partitions
        self._log_manager = log_manager
        self._background = background
        self._metrics_of = metrics_of
        self._serve_partition = serve
        self._strays = StraySweep(broker.id, image, partitions, log_dir, log_manager)
        self._recovering: asyncio.Task[None] | None = None
        self._child = RecoveryProcess()
        self._in_memory = MemoryRecovery()
        self._terms: dict[Key, int] = {}
        self.lost = LostLogs(broker.id, image, isr_leaving, self._begin_empty)
        self._told: dict[Key, str] = {}
        """Why partitions are offline, as it was last said."""
        self._unopened: set[Key] = {
            (topic.name, index) for topic in image.topics.values() for index in self._own(topic)
        }
        self._checkpoints = log_manager.checkpoints
        self._checkpoints.load()
        self._folders = PartitionFolders(image, log_dir, log_manager, self.lost)
        self._clean = log_dir.folder.take_clean_mark()

    def _own(self, topic: TopicImage) -> list[int]:
        me = self._broker.id
        return [index for index, replicas in enumerate(topic.assignment) if me in replicas]

    @property
    def all_open(self) -> bool:
        """True if every partition was opened: then, and only then, can a stop be clean."""
        return self._unopened.isdisjoint(self._image.partitions)

    async def open_all(self) -> None:
        """Open every replica of this broker; large recoveries go on after this returns."""
        await self._strays.sweep(self._unopened)
        large: list[tuple[int, LocalReplica]] = []
        new: list[LocalReplica] = []
        turns = Turns()
        for topic in list(self._image.topics.values()):
            self._partitions.expect(topic.name, topic.id, len(topic.assignment))
            for index in self._own(topic):
                place = self._place(topic, index)
                if place.key not in self._unopened:
                    continue  # made since, by another broker's word
                to_scan = 0 if self._clean else self._bytes_to_scan(place)
                if to_scan > SCANNED_IN_PLACE:
                    large.append((to_scan, place))
                else:
                    try:
                        self._try_to_open(place, clean=self._clean or to_scan == 0)
                    except OfAnotherTopicError:
                        new.append(place)
                await turns.give_way()
        if new:
            await self._open_new(new)
        if large:
            large.sort(key=lambda each: each[0])
            places = [place for _, place in large]
            total = sum(size for size, _ in large)
            log.info("recovering logs after unclean shutdown", partitions=len(large), bytes=total)
            self._recovering = asyncio.get_running_loop().create_task(self._recover_all(places))

    def _begin_empty(self, topic: TopicImage, index: int) -> None:
        self._background.run(self._open_new([self._place(topic, index)]))

    async def open_new_partitions(self, topic: TopicImage) -> None:
        """Open the replicas of a topic that this broker has got."""
        partitions = self._partitions
        partitions.expect(topic.name, topic.id, len(topic.assignment))
        places = [
            self._place(topic, index)
            for index in self._own(topic)
            if (topic.name, index) not in self._unopened
            and partitions.get(topic.name, index) is None
        ]
        if not places:
            return
        self._unopened.update(place.key for place in places)
        await self._open_new(places)

    async def _open_new(self, places: list[LocalReplica]) -> None:
        try:
            await self._checkpoints.forget(place.key for place in places)
        except OSError as problem:
            for place in places:
                self._failed(place, problem)
            self._later(lambda: self._background.run(self._open_new(places)))
            return
        turns = Turns()
        for place in places:
            self._open(place._replace(recovery_point=0, start_offset=0), clean=True)
            await turns.give_way()

    async def delete_unopened(self, topic: TopicImage, kept: Collection[int] = ()) -> None:
        """Replicas of a topic have gone: take the folders of those that are not open away, too."""
        gone = self._forget_unopened(topic, kept)
        try:
            await self._leave(gone)
        finally:
            self._folders.delete_all(topic, gone)

    async def set_unopened_aside(self, topic: TopicImage) -> list[str]:
        """A topic is missing: rename the folders of partitions that are not open; the new names.

        Raises OSError.
        """
        gone = self._forget_unopened(topic)
        await self._leave(gone)
        folders = self._folders
        return [folders.set_aside(place) for place in gone if folders.is_of(topic, place)]

    def _forget_unopened(self, topic: TopicImage, kept: Collection[int] = ()) -> list[LocalReplica]:
        gone = [
            self._place(topic, index)
            for index in range(len(topic.assignment))
            if index not in kept and (topic.name, index) in self._unopened
        ]
        for place in gone:
            self._unopened.discard(place.key)
            self.lost.forget(place.key)
            self._told.pop(place.key, None)
            self._terms[place.key] = place.term + 1
        return gone

    async def _leave(self, places: list[LocalReplica]) -> None:
        """Stop all work on these folders."""
        directories = {str(place.directory) for place in places}
        await self._child.leave(directories)
        await self._in_memory.leave(directories)

    async def stop(self) -> None:
        """Give up recoveries that are under way; they are done again at the next start."""
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)

    def _place(self, topic: TopicImage, index: int) -> LocalReplica:
        key = (topic.name, index)
        return LocalReplica(
            topic,
            index,
            self._log_dir.folder.path / f"{topic.name}-{index}",
            self._checkpoints.recovery_point(key),
            self._checkpoints.start_offset(key),
            self._terms.get(key, 0),
        )

    def _bytes_to_scan(self, place: LocalReplica) -> int:
        try:
            return needs_recovery_bytes(place.directory, place.recovery_point, self._log_dir.files)
        except OSError:  # scanning it says what is wrong, or finds that nothing is wrong now
            return 1

    def _open(self, place: LocalReplica, *, clean: bool) -> None:
        try:
            self._try_to_open(place, clean=clean)
        except OfAnotherTopicError:
            self._background.run(self._open_new([place]))

    def _try_to_open(self, place: LocalReplica, *, clean: bool) -> None:
        if not self._is_wanted(place):
            return
        log_dir = self._log_dir
        try:
            place = self._folders.prepare(place)
            settings = log_config(place.topic.configs, self._config.current)
            if clean:
                opened = Log.open(
                    place.directory,
                    settings,
                    files=log_dir.files,
                    cache=log_dir.cache,
                    recovery_point=place.recovery_point,
                    start_offset=place.start_offset,
                    clean=True,
                    now=self._clock.now_ms(),
                )
                if opened.end_offset < place.recovery_point:
                    raise CorruptLog(
                        f"{place.directory} ends at offset {opened.end_offset}, before its "
                        f"recovery point {place.recovery_point}"
                    )
            else:
                opened, found = self._recover(place, log_dir.files, log_dir.cache)
                _tell(place, found)
        except (OSError, CorruptLog, FolderError, KafkaError) as problem:
            self._failed(place, problem)
            if _may_pass(problem):
                log_dir.full_disk.refused(place.directory.name, str(problem))
                self._later(lambda: self._open(place, clean=clean))
            return
        self._serve(place, opened)

    def _later(self, work: Callable[[], object]) -> None:
        def begin() -> None:
            if self._broker.running:
                work()

        asyncio.get_running_loop().call_later(TRY_AGAIN_SECONDS, begin)

    def _is_wanted(self, place: LocalReplica) -> bool:
        """False where the topic was deleted, or the replica moved away meanwhile."""
        topic = self._image.topics.get(place.topic.name)
        return (
            topic is not None
            and topic.id == place.topic.id
            and place.term == self._terms.get(place.key, 0)
            and place.partition < len(topic.assignment)
            and self._broker.id in topic.assignment[place.partition]
        )

    def _serve(self, place: LocalReplica, opened: Log) -> None:
        topic = place.topic
        state = self._image.partitions.get(place.key)
        partition = Partition(
            topic.name,
            topic.id,
            place.partition,
            0 if state is None else state.leader_epoch,
            opened,
            self._metrics_of(topic.name),
            self._log_manager.flush_later,
            self._log_dir.flusher,
        )
        partition.opened(self._checkpoints.high_watermark(place.key))
        self._checkpoints.opened(partition)
        self._unopened.discard(place.key)
        if self._told.pop(place.key, None) is not None:
            log.warning("partition is online again", partition=place.directory.name)
        self._serve_partition(partition)
        if opened.unflushed_messages and not partition.has_unflushed:
            # What was scanned need not be scanned again after the next kill.
            partition.has_unflushed = True
            self._log_manager.flush_later(partition)

    def _failed(self, place: LocalReplica, problem: Exception) -> None:
        if not self._is_wanted(place):
            return
        reason = str(problem)
        if self._told.get(place.key) != reason:  # it may be tried again for hours
            self._told[place.key] = reason
            log.error("partition is offline", partition=place.directory.name, reason=reason)
        self._partitions.put_failed(
            place.topic.name, place.partition, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        )
        self.lost.failed(place.key, place.topic, problem)

    # Recovery in a child process -----------------------------------------------------------

    async def _recover_all(self, places: list[LocalReplica]) -> None:
        """Recover one log after the other; those that a full disk refused once more at the end."""
        child, count, done = self._child, len(places), 0
        try:
            while places:
                again: list[LocalReplica] = []
                for place in places:
                    if not self._is_wanted(place):
                        continue
                    if self._folders.is_of_another_topic(place):
                        await self._open_new([place])
                        continue
                    try:
                        answer = await child.recover(self._order(place))
                        if answer is None:
                            continue
                        if answer.get("errno") in NO_ROOM:
                            answered = await self._recover_in_memory(place)
                        else:
                            answered = self._recovered(place, answer)
                    except Exception:  # the others are recovered all the same
                        log.exception("log recovery failed; retrying", log=place.directory.name)
                        answered = False
                    if not answered:
                        again.append(place)
                        continue
                    done += 1
                    log.info("log recovered", log=place.directory.name, done=done, of=count)
                places = again
                if places:
                    await child.end()
                    await asyncio.sleep(TRY_AGAIN_SECONDS)
            log.info("log recovery completed", partitions=count)
        finally:
            await child.end()

    def _recover(
        self, place: LocalReplica, files: Files, cache: FileCache
    ) -> tuple[Log, Recovered]:
        return recover(
            place.directory,
            log_config(place.topic.configs, self._config.current),
            files=files,
            cache=cache,
            recovery_point=place.recovery_point,
            start_offset=place.start_offset,
            now=self._clock.now_ms(),
        )

    async def _recover_in_memory(self, place: LocalReplica) -> bool:
        """The disk is full: recover and write nothing; False where it is to be tried again."""
        log_dir = self._log_dir
        log_dir.full_disk.refused(place.directory.name, "not enough disk space for indexes")
        try:
            opened, found = await self._in_memory.recover(
                str(place.directory), partial(self._recover, place), log_dir.files, log_dir.cache
            )
        except (OSError, CorruptLog, KafkaError) as problem:
            self._failed(place, problem)
            return not _may_pass(problem)
        if self._is_wanted(place):
            _tell(place, found)
            self._serve(place, opened)
        else:
            opened.fail(FileNotFoundError(errno.ENOENT, "the partition was deleted"))
        return True

    def _order(self, place: LocalReplica) -> dict[str, Any]:
        settings = asdict(log_config(place.topic.configs, self._config.current))
        settings["cleanup_policy"] = sorted(settings["cleanup_policy"])
        return {
            "directory": str(place.directory),
            "recovery_point": place.recovery_point,
            "start_offset": place.start_offset,
            "config": settings,
        }

    def _recovered(self, place: LocalReplica, answer: dict[str, Any]) -> bool:
        """Take note of an answer; False where it is to be asked for again."""
        if "error" in answer:
            kind = OSError if "errno" in answer else CorruptLog
            self._failed(place, kind(answer["error"]))
            return answer.get("errno") not in MAY_PASS
        del answer["directory"]
        found = Recovered(**answer)
        _tell(place, found)
        self._open(
            place._replace(recovery_point=found.recovery_point, start_offset=found.start_offset),
            clean=True,
        )
        return True


def _may_pass(problem: Exception) -> bool:
    """True where the disk is only full, or too many files are open."""
    reason = problem.__cause__ if isinstance(problem, KafkaError) else problem
    return isinstance(reason, OSError) and reason.errno in MAY_PASS


def _tell(place: LocalReplica, found: Recovered) -> None:
    if found.truncated_bytes:
        log.warning(
            "log has a corrupt or incomplete tail; truncated",
            partition=place.directory.name,
            bytes=found.truncated_bytes,
            end_offset=found.end_offset,
            reason=found.problem,
        )
