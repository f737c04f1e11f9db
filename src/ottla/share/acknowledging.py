"""What members say of the records that they acquired.

Rules kept here (Kafka's SharePartition.acknowledge):
1. All acknowledgements of one request for a partition count, or none: everything is checked before
   anything is changed.
2. Only the owner of an acquired record may acknowledge it, and not while a change of it is being
   written: INVALID_RECORD_STATE. Past what is in flight: INVALID_REQUEST. Below the start offset:
   it is done with, and nothing happens.
3. RENEW starts the lock again, and is not stored (KIP-1222).
4. A session that ends gives its records back; their delivery counts stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ottla.share.partition import SharePartition
from ottla.share.runs import Run
from ottla.share.states import (
    AVAILABLE,
    STATE_AFTER,
    Acknowledgement,
    AcknowledgeType,
    StateWrite,
)
from ottla.wire.errors import ErrorCode, KafkaError

_Piece = tuple[int, int, AcknowledgeType]


def acknowledge(
    partition: SharePartition, now: int, member: str, given: Sequence[Acknowledgement]
) -> StateWrite | None:
    """Take acknowledgements of a member; returns what is to be stored, if anything.

    Raises KafkaError, and nothing is changed.
    """
    pieces: list[_Piece] = []
    for each in given:
        pieces += _checked(partition, member, each)
    for before, after in pairwise(pieces):
        if after[0] <= before[1]:
            raise _not_acquired(f"offset {after[0]} is acknowledged twice")
    changed: list[Run] = []
    number = 0
    locked_until = now + partition.settings.lock_duration_ms
    for first, last, kind in pieces:
        runs = partition.runs.within(first, last)
        if kind is AcknowledgeType.RENEW:
            for run in runs:
                run.locked_until = locked_until
            continue
        number = number or partition.new_write()
        for run in runs:
            state = STATE_AFTER[kind]
            if state is AVAILABLE:
                state = partition.state_after_release(run)
            run.change(state, number)
            changed.append(run)
    return partition.to_store(number, changed) if changed else None


def release(partition: SharePartition, member: str) -> StateWrite | None:
    """Give back what a member holds; returns what is to be stored, if anything."""
    changed = [run for run in partition.runs if run.is_held_by(member)]
    if not changed:
        return None
    number = partition.new_write()
    for run in changed:
        run.change(partition.state_after_release(run), number)
    return partition.to_store(number, changed)


def check_form(
    given: Iterable[Acknowledgement], *, allows_renew: bool, is_renew: bool
) -> ErrorCode | None:
    """What is wrong with acknowledgements of one partition by themselves, as in Kafka's broker."""
    previous_end = -1
    most = AcknowledgeType.RENEW if allows_renew else AcknowledgeType.REJECT
    for first, last, types in given:
        if (
            first > last
            or first < previous_end
            or not types
            or (len(types) > 1 and len(types) != last - first + 1)
            or any(not 0 <= kind <= most for kind in types)
            or (AcknowledgeType.RENEW in types and not is_renew)
        ):
            return ErrorCode.INVALID_REQUEST
        previous_end = last
    return None


def _checked(partition: SharePartition, member: str, given: Acknowledgement) -> Iterator[_Piece]:
    """The parts of an acknowledgement that change something; raises KafkaError."""
    start = partition.start_offset
    if given.last < start:
        return
    _check_range(partition, given, start)
    first = max(given.first, start)
    for run in partition.runs.overlapping(first, given.last):
        if not run.is_held_by(member):
            raise _not_acquired(f"{run.first} to {run.last} are not acquired by {member}")
    renews = AcknowledgeType.RENEW in given.types
    if renews and not partition.settings.renew_enabled:
        raise _not_acquired("renewing acquisition locks is not enabled for the group")
    if len(given.types) == 1:
        yield first, given.last, AcknowledgeType(given.types[0])
        return
    offset = first
    while offset <= given.last:
        kind = given.types[offset - given.first]
        end = offset
        while end < given.last and given.types[end + 1 - given.first] == kind:
            end += 1
        yield offset, end, AcknowledgeType(kind)
        offset = end + 1


def _check_range(partition: SharePartition, given: Acknowledgement, start: int) -> None:
    """Refuse offsets that are not in flight; raises KafkaError."""
    runs = partition.runs
    floor = runs.floor(given.first)
    if floor is None and not given.first < start:
        raise _not_acquired("the offsets are not in flight")
    last = runs.floor(given.last)
    if last is None:
        raise _not_acquired("the offsets are not in flight")
    if last.last < given.last:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"offset {given.last} is past the acquired records"
        )


def _not_acquired(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD_STATE, reason)
