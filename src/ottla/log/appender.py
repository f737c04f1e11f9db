"""Appending to a log: the batches of producers, coordinators and leaders.

Rules kept here:
1. A batch gets the next offset, or is refused and leaves no trace.
2. Everything derived from batches (indexes, leader epochs, producers, aborted transactions) is
   brought up to a batch only after the file system took it.
3. append() is the hot path of the broker: it is one flat function on purpose.
"""

from struct import Struct
from typing import Protocol

from crc32c import crc32c

from ottla.log.appended import Appended
from ottla.log.config import LogConfig
from ottla.log.leader_epochs import LeaderEpochFileCache
from ottla.log.local_log import LocalLog
from ottla.log.producers.manager import ProducerStateManager
from ottla.log.producers.snapshots import WEIGHT_OF_A_BATCH
from ottla.log.producers.states import SEQUENCE_MASK
from ottla.log.segments.offset_index import MAX_RELATIVE
from ottla.log.segments.segment import LogSegment
from ottla.log.segments.txn_index import AbortedTransaction
from ottla.log.validation.checks import (
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
from ottla.log.validation.inspection import Inspected, look_into
from ottla.log.validation.recompression import wanted
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
    BatchHeader,
    read_header,
)
from ottla.wire.errors import ErrorCode, KafkaError

VALIDATE = KERNEL.validate_records
_BASE_LENGTH_EPOCH = Struct(">qii")
_TIMESTAMP = Struct(">q")


class Append(Protocol):
    """The signature of LogAppender.append(), which a log has as its own."""

    def __call__(
        self,
        batch: memoryview,
        *,
        now: int,
        leader_epoch: int,
        api_version: int = 99,
        from_client: bool = True,
        looked: Inspected | None = None,
        may_wait: bool = True,
    ) -> Appended: ...


class LogAppender:
    """Appends to one log."""

    __slots__ = (
        "_after_max_ms",
        "_append_time",
        "_before_max_ms",
        "_codec",
        "_compacted",
        "_config",
        "_epochs",
        "_flush_messages",
        "_local",
        "_producers",
        "_snapshots",
        "_states",
        "largest_batch",
    )

    def __init__(
        self, local: LocalLog, epochs: LeaderEpochFileCache, producers: ProducerStateManager
    ) -> None:
        self._local = local
        self._epochs = epochs
        self._producers = producers
        self._states = producers.states
        self._snapshots = producers.snapshots
        self.set_config(local.config)

    def set_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self._config = config
        self.largest_batch = min(config.max_message_bytes, config.segment_bytes)
        self._flush_messages = config.flush_messages
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._compacted = "compact" in config.cleanup_policy
        self._codec = wanted(config)

    # As leader ----------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        *,
        now: int,
        leader_epoch: int,
        api_version: int = 99,
        from_client: bool = True,
        looked: Inspected | None = None,
        may_wait: bool = True,
    ) -> Appended:
        """Append the one batch of a produce request, stamping its offset and epoch into it.

        `from_client` is False for what a coordinator of this broker writes: its batches have no
        sequences. Raises KafkaError with Kafka's code for what is wrong, and LongBodyError where a
        long batch has to be looked into and `may_wait` is False: append it again with the result
        as `looked`.
        """
        size = len(batch)
        if size < HEADER_SIZE:
            check_batch(batch, self._config, api_version)
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
            size = check_batch(batch, self._config, api_version)
            batch = batch[:size]
            if attributes & LOG_APPEND_TIME:
                attributes &= ~LOG_APPEND_TIME
                restamp_attributes(batch, attributes)
        local = self._local
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
            or timestamp - now > self._after_max_ms
            or now - base_timestamp > self._before_max_ms
        ):
            # A compressed batch may not say its largest timestamp: Sarama's did not until 1.45.
            if codec and timestamp < base_timestamp:
                looked = self._look(batch, now, looked, may_wait)
                timestamp = looked.found.max_timestamp
                restamp_max_timestamp(batch, timestamp)
            if not are_timely(base_timestamp, timestamp, now, self._config):
                looked = self._look(batch, now, looked, may_wait)
                refuse_timestamps(looked.found, *timestamp_range(now, self._config))
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
                    check_first_sequence(producer_id in self._states.by_id, api_version)
                original = self._states.check(
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
                        local.start_offset,
                        True,
                        original.last_offset >= local.recovery_point
                        and local.end_offset - local.recovery_point >= self._flush_messages,
                    )
            else:
                self._states.check_epoch(producer_id, producer_epoch)

        if looked is not None and looked.recompressed is not None:
            batch = looked.recompressed
            attributes = HEADER.unpack_from(batch)[5]
            size = len(batch)
            length = size - LOG_OVERHEAD
            restamp_max_timestamp(batch, timestamp)

        segment = local.writable
        if segment is None:
            segment = local.writable_segment()
        first_offset = local.end_offset
        last_offset = first_offset + last_delta
        position = segment.size
        if (
            position + size > local.segment_bytes
            or timestamp > segment.roll_after
            or last_offset - segment.base_offset > MAX_RELATIVE
        ) and position:
            segment = self.roll(first_offset, now)
            position = 0
        _BASE_LENGTH_EPOCH.pack_into(batch, 0, first_offset, length, leader_epoch)
        if append_time >= 0:
            _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, now)
            restamp_attributes(batch, attributes | LOG_APPEND_TIME)
        file = segment.file
        file.used = True
        fd = file.fd
        try:
            written = local.files.pwrite(fd if fd >= 0 else file.descriptor(), batch, position)
        except OSError as error:
            raise local.undo_write(segment, error) from error
        if written != size:
            raise local.undo_write(segment, None)

        if timestamp > segment.max_timestamp:
            segment.max_timestamp = timestamp
            segment.max_timestamp_offset = last_offset
        if position == 0:
            segment.begin_rolling_clock(timestamp, self._config.max_segment_ms)
        elif segment.since_index > local.index_interval:
            local.add_index_entry(segment, last_offset, position)
        segment.since_index += size
        segment.size = position + size
        local.size += size
        self._snapshots.behind += size + WEIGHT_OF_A_BATCH
        local.end_offset = end_offset = last_offset + 1
        if leader_epoch != self._epochs.latest:
            self._epochs.assign(leader_epoch, first_offset)
        if producer_id >= 0:
            self._states.update(
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
            local.start_offset,
            False,
            end_offset - local.recovery_point >= self._flush_messages,
        )

    def _look(
        self, batch: memoryview, now: int, looked: Inspected | None, may_wait: bool
    ) -> Inspected:
        if looked is not None and looked.wanted == self._codec:
            return looked
        earliest, latest = timestamp_range(now, self._config)
        return look_into(batch, self._codec, earliest, latest, may_wait=may_wait)

    def append_marker(
        self, batch: memoryview, *, now: int, leader_epoch: int, transaction_version: int
    ) -> Appended:
        """Append the control batch that ends a producer's transaction here."""
        local = self._local
        self._states.check_marker(decode_marker(batch), transaction_version)
        offset = local.end_offset
        _BASE_LENGTH_EPOCH.pack_into(batch, 0, offset, len(batch) - LOG_OVERHEAD, leader_epoch)
        self.append_checked(batch, [(0, read_header(batch))], now)
        must_flush = local.end_offset - local.recovery_point >= self._flush_messages
        return Appended(offset, offset, -1, local.start_offset, False, must_flush)

    # Checked batches ----------------------------------------------------------------------

    def append_checked(
        self, view: memoryview, batches: list[tuple[int, BatchHeader]], now: int | None
    ) -> None:
        """Append batches that were checked, which lie one behind the other in the view.

        As many as fit a segment go in one write.
        """
        local = self._local
        at = 0
        while at < len(batches):
            segment = local.writable or local.writable_segment()
            if not local.fits(segment, batches[at][1], segment.size) or (
                segment.size == 0 and not segment.can_hold(batches[at][1].last_offset)
            ):
                segment = self.roll(batches[at][1].base_offset, now)
            start = batches[at][0]
            upto = at
            while upto < len(batches) and (
                upto == at
                or local.fits(segment, batches[upto][1], segment.size + batches[upto][0] - start)
            ):
                upto += 1
            end = batches[upto - 1][0] + batches[upto - 1][1].size
            try:
                written = segment.write(view[start:end], segment.size)
            except OSError as error:
                raise local.undo_write(segment, error) from error
            if written != end - start:
                raise local.undo_write(segment, None)
            for position, header in batches[at:upto]:
                self.note_batch(segment, header, view[position : position + header.size], now)
            at = upto

    def note_batch(
        self, segment: LogSegment, header: BatchHeader, batch: memoryview, now: int | None
    ) -> None:
        """A batch is in the active segment's file: bring everything else up to it."""
        local = self._local
        local.count(segment, header)
        if header.leader_epoch > self._epochs.latest:
            self._epochs.assign(header.leader_epoch, header.base_offset)
        completed = self._producers.replay(header, batch, now)
        if completed is None:
            return
        if completed.aborted:
            stable = self._states.first_undecided_offset()
            segment.txn_index.add(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    local.end_offset if stable is None else stable,
                )
            )
        # Here, not only for readers: a follower has none, and would keep them forever.
        self._states.forget_decided(local.committed_offset)

    # Rolling ------------------------------------------------------------------------------

    def roll(self, base_offset: int, now: int | None) -> LogSegment:
        """Begin a new segment at this offset or at the log's end, unless the active one does."""
        active = self._local.segments.active
        segment = self._local.roll(base_offset, now)
        if segment is not active:
            self._producers.take_snapshot(segment.base_offset)
        return segment

    def begin_recovered_segment(self, segment: LogSegment) -> None:
        """Add the next segment found after a crash; its batches are noted one by one."""
        local = self._local
        local.segments.add(segment)
        local.end_offset = segment.base_offset
        self._producers.take_snapshot(segment.base_offset)
