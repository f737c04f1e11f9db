"""Appending as a follower: the leader's batches, byte for byte.

Rules kept here:
1. A follower orders nothing: batches keep their bytes, offsets and epochs. Offsets may leave gaps
   (compaction), never go back.
2. All batches of a call are checked before the first is written. An incomplete batch at the end,
   where the leader's response was full, is left for the next fetch.
3. So is a batch of a newer leader epoch than the one that was fetched for, with all that follow it
   (KAFKA-18723): the leader of that epoch has no such batch, so they come from another log.
"""

from itertools import takewhile

from ottla.log.appender import LogAppender
from ottla.log.local_log import LocalLog
from ottla.log.truncation import Truncation
from ottla.wire.batch import crc_is_right, headers
from ottla.wire.errors import ErrorCode, KafkaError


def append_as_follower(
    local: LocalLog,
    appender: LogAppender,
    truncation: Truncation,
    view: memoryview,
    now: int | None,
    leader_epoch: int | None,
) -> bool:
    """Append a leader's batches; False if some are of a newer epoch than its, and left out."""
    local.check_online()
    found = list(headers(view))
    batches = found
    if leader_epoch is not None:
        batches = list(takewhile(lambda each: each[1].leader_epoch <= leader_epoch, found))
    if not batches:
        return not found
    first = batches[0][1].base_offset
    expected = local.end_offset
    if first < expected and local.start_offset == local.end_offset and local.size == 0:
        # DeleteRecords on the leader may have left its start offset inside a batch.
        expected = first
    for position, header in batches:
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{local}: offset {header.base_offset} cannot follow {expected - 1}",
            )
        if not crc_is_right(view[position : position + header.size], header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{local}: the batch at {header.base_offset} has an invalid CRC",
            )
        expected = header.next_offset
    if first < local.end_offset:
        truncation.truncate_fully_and_start_at(first, local.start_offset)
    appender.append_checked(view, batches, now)
    return len(batches) == len(found)
