"""One partition's log: the contract the broker works against.

Rules kept here:
1. Offsets only grow. A batch gets the next offset, or is refused and leaves no trace.
2. Records never change. Only truncation (a follower that parted from its leader) removes any from
   the end; retention, compaction and DeleteRecords remove from the start or between.
3. A reader gets batches from the one that holds its offset on, none that reaches the limit it is
   given, and its file stays open until it is done, whatever happens to the segment.
4. Nothing here waits for the disk except opening, closing and truncating: begin_flush() captures,
   Flush.run() waits (in a thread), end_flush() moves the recovery point (flushed_storage.py).
5. One thread calls a log's methods.

append() is the hot path of the broker: it is one flat function on purpose.
"""

from pathlib import Path
from struct import Struct

from crc32c import crc32c

from ottla.log import compaction_swap, lookup, replication, retention
from ottla.log.appended import Appended
from ottla.log.config import LogConfig
from ottla.log.files import FileCache, Files, Slice
from ottla.log.flushed_storage import FlushedStorage
from ottla.log.folder import deleted_name, stray_name
from ottla.log.loading import Inventory, closing_after_failure, load_clean, load_nothing
from ottla.log.looking import Looked, look_into
from ottla.log.lookup import TimestampAndOffset
from ottla.log.offset_index import MAX_RELATIVE
from ottla.log.producer_state import SEQUENCE_MASK
from ottla.log.scan import CorruptLog
from ottla.log.segment import Segment
from ottla.log.snapshots import WEIGHT_OF_A_BATCH
from ottla.log.validation import (
    FIRST_VERSION_WITH_ZSTD,
    MAX_TIMESTAMP_AT,
    PLAIN_ATTRIBUTES,
    SMALLEST_RECORD,
    ZSTD,
    are_timely,
    check_batch,
    check_first_sequence,
    check_frame,
    check_keys,
    refuse_timestamps,
    restamp_attributes,
    restamp_max_timestamp,
    timestamp_range,
)
from ottla.records.control import decode_marker
from ottla.records.kernel import KERNEL
from ottla.wire.batch import (
    CODEC_MASK,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    read_header,
)
from ottla.wire.errors import ErrorCode, KafkaError

EXPIRY_EVERY_MS = 600_000
"""How often maintain() looks for silent producers."""

VALIDATE = KERNEL.validate_records
_BASE_LENGTH_EPOCH = Struct(">qii")
_TIMESTAMP = Struct(">q")


class Log(FlushedStorage):
    """One partition's log. Log.open() makes one."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        recovery_point: int,
        start_offset: int,
        clean: bool,
        now: int,
    ) -> "Log":
        """Open the log in a folder, or begin one there.

        After a clean stop names, sizes and the last segment's end are read, and no more. Otherwise
        what lies past the recovery point is scanned first. Raises CorruptLog where what should be
        on disk is not, and OSError.
        """
        if not clean:
            from ottla.log.recovery import recover

            return recover(
                directory,
                config,
                files=files,
                cache=cache,
                recovery_point=recovery_point,
                start_offset=start_offset,
                now=now,
            )[0]
        inventory = Inventory(files, directory)
        if not inventory.bases:
            inventory.check_end(start_offset, recovery_point)
            return cls.begin(
                directory, config, files=files, cache=cache, start_offset=start_offset, now=now
            )
        loaded = load_clean(inventory, config, cache, start_offset, now)
        with closing_after_failure(loaded.segments):
            inventory.check_end(max(loaded.end_offset, start_offset), recovery_point)
            log = cls(
                directory,
                config,
                files=files,
                cache=cache,
                loaded=loaded,
                start_offset=max(start_offset, loaded.segments.first.base_offset),
                recovery_point=loaded.end_offset,
                now=now,
            )
            log.end_at_least_at_start(now)
        return log

    @classmethod
    def begin(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        files: Files,
        cache: FileCache,
        start_offset: int,
        now: int,
    ) -> "Log":
        """Make an empty log in a folder that holds no segment."""
        log = cls(
            directory,
            config,
            files=files,
            cache=cache,
            loaded=load_nothing(files, directory, start_offset),
            start_offset=start_offset,
            recovery_point=start_offset,
            now=now,
        )
        log.restart_at(start_offset, now)
        log.directory_is_new = True
        return log

    # Writing ------------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        *,
        now: int,
        leader_epoch: int,
        api_version: int = 99,
        from_client: bool = True,
        looked: Looked | None = None,
        may_wait: bool = True,
    ) -> Appended:
        """Append the one batch of a produce request, stamping its place in the log into it.

        `from_client` is False for what a coordinator of this broker writes: its batches have no
        sequences. Raises KafkaError with Kafka's code for what is wrong, and LongBodyError where it
        `may_wait` not and has to look into a long batch: what that finds comes as `looked`.
        """
        size = len(batch)
        if size < HEADER_SIZE:
            check_batch(batch, self.config, api_version)
        (
            base_offset,
            length,
            _,
            magic,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            timestamp,
            producer_id,
            producer_epoch,
            sequence,
            count,
        ) = HEADER.unpack_from(batch)
        if (
            magic != 2
            or length != size - LOG_OVERHEAD
            or base_offset != 0
            or count != last_delta + 1
            or count <= 0
            or count * SMALLEST_RECORD > size - HEADER_SIZE
            or size > self.largest_batch
            or attributes not in PLAIN_ATTRIBUTES
            or (attributes & CODEC_MASK == ZSTD and api_version < FIRST_VERSION_WITH_ZSTD)
            or (producer_id >= 0 and sequence < 0 and from_client)
            or crc32c(batch[CRC_COVERS_FROM:]) != crc
        ):
            size = check_batch(batch, self.config, api_version)
            batch = batch[:size]
            if attributes & LOG_APPEND_TIME:
                attributes &= ~LOG_APPEND_TIME
                restamp_attributes(batch, attributes)
        append_time = -1
        codec = attributes & CODEC_MASK
        if from_client:
            if codec:
                check_frame(batch, codec, count)
            else:
                try:
                    largest = VALIDATE(batch, HEADER_SIZE, count, base_timestamp)
                except KafkaError as problem:
                    raise KafkaError(ErrorCode.INVALID_RECORD, problem.message) from None
                if largest != timestamp:
                    restamp_max_timestamp(batch, largest)
                    timestamp = largest
        if self._append_time:
            append_time = base_timestamp = timestamp = now
        elif from_client and (
            timestamp < base_timestamp
            or timestamp - now > self.config.message_timestamp_after_max_ms
            or now - base_timestamp > self.config.message_timestamp_before_max_ms
        ):
            # A compressed batch may not say its largest timestamp: Sarama's did not until 1.45.
            if codec and timestamp < base_timestamp:
                looked = self._look(batch, now, looked, may_wait)
                timestamp = looked.found.max_timestamp
                restamp_max_timestamp(batch, timestamp)
            if not are_timely(base_timestamp, timestamp, now, self.config):
                looked = self._look(batch, now, looked, may_wait)
                refuse_timestamps(looked.found, *timestamp_range(now, self.config))
        if from_client and (
            self._compacted or (self._codec is not None and self._codec.codec != codec)
        ):
            looked = self._look(batch, now, looked, may_wait)
            if self._compacted:
                check_keys(looked.found)
        if producer_id >= 0:
            last_sequence = (sequence + last_delta) & SEQUENCE_MASK if sequence >= 0 else sequence
            if from_client:
                if sequence and attributes & TRANSACTIONAL:
                    check_first_sequence(producer_id in self.producers.by_id, api_version)
                original = self.producers.check(
                    producer_id,
                    producer_epoch,
                    sequence,
                    last_sequence,
                    attributes & TRANSACTIONAL != 0,
                )
                if original is not None:
                    # As in Kafka, a duplicate's timestamp is returned whatever the timestamp type.
                    return Appended(
                        original.first_offset,
                        original.last_offset,
                        original.timestamp,
                        self.start_offset,
                        True,
                        original.last_offset >= self.recovery_point
                        and self.unflushed_messages >= self._flush_messages,
                    )
            else:
                self.producers.check_epoch(producer_id, producer_epoch)

        if looked is not None and looked.recompressed is not None:
            batch = looked.recompressed
            attributes = HEADER.unpack_from(batch)[5]
            size = len(batch)
            length = size - LOG_OVERHEAD
            restamp_max_timestamp(batch, timestamp)

        segment = self._writable
        if segment is None:
            segment = self._make_writable()
        first_offset = self.end_offset
        last_offset = first_offset + last_delta
        position = segment.size
        if (
            position + size > self._segment_bytes
            or timestamp > segment.roll_after
            or last_offset - segment.base_offset > MAX_RELATIVE
        ) and position:
            segment = self._roll(first_offset, now)
            position = 0
        _BASE_LENGTH_EPOCH.pack_into(batch, 0, first_offset, length, leader_epoch)
        if append_time >= 0:
            _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, now)
            restamp_attributes(batch, attributes | LOG_APPEND_TIME)
        file = segment.file
        file.used = True
        try:
            written = self.files.pwrite(
                file.fd if file.fd >= 0 else file.descriptor(), batch, position
            )
        except OSError as error:
            raise self._undo_write(segment, error) from error
        if written != size:
            raise self._undo_write(segment, None)

        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position == 0:
            segment.begin_rolling_clock(timestamp, self.config.max_segment_ms)
        elif segment.since_index > self._index_interval:
            self._index(segment, last_offset, position)
        segment.since_index += size
        segment.size = position + size
        self.size += size
        self.snapshots.behind += size + WEIGHT_OF_A_BATCH
        self.end_offset = end_offset = last_offset + 1
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        if producer_id >= 0:
            self.producers.update(
                producer_id,
                producer_epoch,
                sequence,
                last_sequence,
                first_offset,
                last_offset,
                timestamp,
                attributes & TRANSACTIONAL != 0,
                now,
            )
        return Appended(
            first_offset,
            last_offset,
            append_time,
            self.start_offset,
            False,
            end_offset - self.recovery_point >= self._flush_messages,
        )

    def _look(self, batch: memoryview, now: int, looked: Looked | None, may_wait: bool) -> Looked:
        if looked is not None and looked.wanted == self._codec:
            return looked
        earliest, latest = timestamp_range(now, self.config)
        return look_into(batch, self._codec, earliest, latest, may_wait=may_wait)

    def append_marker(
        self, batch: memoryview, *, now: int, leader_epoch: int, transaction_version: int = 0
    ) -> Appended:
        """Append the control batch that ends a producer's transaction here."""
        self.producers.check_marker(decode_marker(batch), transaction_version)
        offset = self.end_offset
        _BASE_LENGTH_EPOCH.pack_into(batch, 0, offset, len(batch) - LOG_OVERHEAD, leader_epoch)
        self.write_batches(batch, [(0, read_header(batch))], now)
        return Appended(offset, offset, -1, self.start_offset, False, self.flush_is_due)

    def append_as_follower(
        self, batches: memoryview, now: int | None = None, *, leader_epoch: int | None = None
    ) -> bool:
        """Append a leader's batches byte for byte, with its offsets and epochs.

        False where some were of a newer epoch than the leader's: those are left out.
        """
        return replication.append_as_follower(self, batches, now, leader_epoch)

    # Reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        limit: int,
        whole_first: bool,
        *,
        may_wait: bool = True,
    ) -> Slice | None:
        """The batches from the one that holds an offset on, up to `max_bytes` or the segment's end.

        No batch that reaches `limit` (a high watermark or a last stable offset) is in it; the last
        one may be cut off by `max_bytes`, as Kafka's clients expect. A first batch larger than
        `max_bytes` comes whole if `whole_first`, else nothing does. None where there is nothing.
        Raises ColdReadError where it `may_wait` not, and the disk would have to be read.
        """
        end_offset = self.end_offset
        if offset < self.start_offset or offset > end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} has offsets from {self.start_offset} to {end_offset}, not {offset}",
            )
        if self.offline:
            self.check_online()
        if limit > end_offset:
            limit = end_offset
        if offset >= limit:
            return None
        seam = self._seam
        if seam is not None and seam[0] == offset and limit == end_offset:
            _, segment, position = seam
            if 0 < segment.size - position <= max_bytes:
                file = segment.file
                self._seam = (limit, segment, segment.size)
                try:
                    file.pin()
                except OSError as error:
                    raise self.failed(error) from error
                return Slice(file, position, segment.size - position)
        segments = self.segments
        segment = segments.active
        if offset < segment.base_offset:
            segment = segments.floor(offset)
        try:
            found = segment.find(offset, may_wait=may_wait)
            while found is None:
                following = segments.after(segment)
                if following is None:
                    return None
                segment = following
                found = segment.find(offset, may_wait=may_wait)
            position, _, size = found
            end = (
                segment.size if limit == end_offset else self._position_of(limit, segment, may_wait)
            )
            available = end - position
            if size > max_bytes:
                if not whole_first or available <= 0:
                    return None
            elif available > max_bytes:
                size = max_bytes
            elif available > 0:
                size = available
                self._seam = (limit, segment, end)
            else:
                return None
            segment.file.pin()
        except (OSError, CorruptLog) as error:
            raise self.failed(error) from error
        return Slice(segment.file, position, size)

    def _position_of(self, limit: int, segment: Segment, may_wait: bool) -> int:
        """Where in a segment the first batch lies that reaches a limit."""
        following = self.segments.after(segment)
        if following is not None and following.base_offset <= limit:
            return segment.size
        if self._limit is not None and self._limit[0] == limit and self._limit[1] is segment:
            return self._limit[2]
        found = segment.find(limit, may_wait=may_wait)
        if found is None:
            return segment.size
        self._limit = (limit, segment, found.position)
        return found.position

    def offset_for_timestamp(
        self, timestamp: int, limit: int, *, may_wait: bool = True
    ) -> TimestampAndOffset | None:
        """The first record at or after a timestamp, if its offset is below a limit.

        Raises ColdReadError where it `may_wait` not, and the disk would have to be read.
        """
        return lookup.offset_for_timestamp(self, timestamp, limit, may_wait=may_wait)

    def max_timestamp_offset(
        self, limit: int, *, may_wait: bool = True
    ) -> TimestampAndOffset | None:
        """The first record with the largest timestamp of the log, if it is below a limit.

        Raises ColdReadError as the other one does.
        """
        return lookup.max_timestamp_offset(self, limit, may_wait=may_wait)

    @property
    def last_stable_offset(self) -> int:
        """What read_committed readers may read up to: no transaction below it is undecided."""
        high_watermark = self.end_offset if self.high_watermark is None else self.high_watermark
        stable = self.producers.last_stable_offset(high_watermark)
        return max(stable, self.start_offset)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction with records in [start, end)."""
        return lookup.aborted_transactions(self, start, end)

    def end_of(self, offset: int, read: Slice) -> int:
        """The offset after the last whole batch of what read() gave for an offset."""
        return lookup.end_of(self, offset, read)

    def aborted_in(self, offset: int, read: Slice, limit: int) -> list[tuple[int, int]]:
        """The same for what read() gave for an offset and a limit."""
        return lookup.aborted_in(self, offset, read, limit)

    # Removing -----------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Remove the batches that reach past an offset; says whether there were any.

        The caller first lowers the recovery point checkpoint to end_if_truncated_to(offset): a log
        that ends before its recovery point counts as damaged.
        """
        return replication.truncate_to(self, offset)

    def end_if_truncated_to(self, offset: int) -> int:
        """Where truncate_to(offset) would make the log end."""
        return replication.end_if_truncated_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int, start_offset: int | None = None) -> None:
        """Remove everything; the next batch gets this offset or a later one.

        The caller first lowers the recovery point checkpoint to 0.
        """
        replication.truncate_fully_and_start_at(self, offset, start_offset)

    def raise_start_offset(self, offset: int) -> None:
        """DeleteRecords: nobody reads below this offset any more."""
        retention.raise_start_offset(self, offset)

    def maintain(self, now: int) -> bool:
        """Roll, retain and expire as the configuration says; True where the log changed."""
        if self.offline:
            return False
        if not now < self._next_expiry <= now + EXPIRY_EVERY_MS:  # later: the clock was set back
            self._next_expiry = now + EXPIRY_EVERY_MS
            self.producers.expire(now, self.config.producer_id_expiration_ms)
        return retention.maintain(self, now)

    def replace_segments(self, old: list[Segment], now: int) -> None:
        """Put the `.cleaned` files of a compaction in the place of neighbouring sealed segments."""
        compaction_swap.replace_segments(self, old, now)

    # Ending -------------------------------------------------------------------------------

    def delete(self, *, keep: bool = False) -> Path:
        """Rename the log's folder so that nobody takes it for one; returns the new name.

        Its files are removed later, or with `keep` never: then it is stray. Readers in the middle
        of one are not disturbed. The log has ended also where this raises OSError: then the folder
        stays as it is.
        """
        name = (stray_name if keep else deleted_name)(self.topic, self.partition)
        target = self.directory.with_name(name)
        if self._flush is not None:
            self._flush.abandon()
        self.fail(FileNotFoundError(f"{self} was deleted"))
        self.files.rename(str(self.directory), str(target))
        self.directory = target
        return target
