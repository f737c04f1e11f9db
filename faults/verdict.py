"""What must be true at the end, looked up in the topics.

Rules kept here:
1. Everything is read from the beginning to the end that the leader names, without a group.
2. A finding is one line that says what is wrong and where; an empty list is a pass.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import monotonic, sleep

from confluent_kafka import Consumer, Message, TopicPartition

from faults.groups import Group, Place
from faults.transactors import Outcome, Transactor
from faults.writers import PATIENT

READ_SECONDS = 240.0
POLL_SECONDS = 0.1
STABLE_WITHIN_SECONDS = 120.0
EXAMPLES = 5

Found = list[tuple[int, str]]


class ReadError(Exception):
    """A topic could not be read to its end."""


class Reader:
    """Reads whole topics."""

    def __init__(self, bootstrap: str, *, committed: bool, keys: bool = False) -> None:
        self._keys = keys
        self._consumer = Consumer(
            {
                **PATIENT,
                "bootstrap.servers": bootstrap,
                "group.id": "verdict",
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.partition.eof": True,
            }
        )

    def close(self) -> None:
        """Done."""
        self._consumer.close()

    def end(self, topic: str, partition: int) -> int:
        """Where reading ends now."""
        found = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
        assert found is not None, "a cached answer was not asked for"
        return found[1]

    def read(self, topic: str, partition: int) -> Found:
        """Offset and value of every record; with keys, `key=value`."""
        watermarks = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
        assert watermarks is not None, "a cached answer was not asked for"
        start, end = watermarks
        found: Found = []
        if start == end:
            return found
        self._consumer.assign([TopicPartition(topic, partition, start)])
        deadline = monotonic() + READ_SECONDS
        at_end = False
        while not at_end:
            if monotonic() > deadline:
                raise ReadError(f"{topic}-{partition} was not read to {end} in time")
            for message in self._consumer.consume(1000, POLL_SECONDS):
                error, offset = message.error(), message.offset()
                if error is not None:
                    at_end |= error.name() == "_PARTITION_EOF"
                elif offset is not None:
                    found.append((offset, self._text(message)))
        self._consumer.unassign()
        return found

    def _text(self, message: Message) -> str:
        value = (message.value() or b"").decode()
        return f"{(message.key() or b'').decode()}={value}" if self._keys else value


def check_keys(
    topic: str, partitions: Mapping[int, Found], written: Counter[str], *, whole: bool = True
) -> Iterator[str]:
    """Every key's numbers from 0 on: each once, in order, none lost, none too many.

    Where records were deleted from the beginning, a key's first number may be any.
    """
    seen: Counter[str] = Counter()
    wrong = 0
    for partition, records in partitions.items():
        for offset, value in records:
            key, _, number = value.rpartition(":")
            if key not in seen and not whole:
                seen[key] = int(number)
            if int(number) != seen[key]:
                wrong += 1
                if wrong <= EXAMPLES:
                    yield (
                        f"{topic}-{partition}@{offset}: {key} has {number} where {seen[key]} "
                        "should be"
                    )
            seen[key] = int(number) + 1
    if wrong > EXAMPLES:
        yield f"{topic}: {wrong} records out of place in all"
    for key in seen.keys() | written.keys():
        if seen[key] != written[key] and (whole or key in seen):
            yield f"{topic}: {key} ends at {seen[key]}, though {written[key]} were written"


def check_transactions(found: Iterable[Found], transactors: Sequence[Transactor]) -> Iterator[str]:
    """Committed ones whole, aborted ones not at all, unknown ones whole or not at all."""
    seen: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for records in found:
        for _, value in records:
            name, at, place = value.split(":")
            seen[name, int(at)][int(place)] += 1
    for transactor in transactors:
        for number, (outcome, size) in enumerate(transactor.outcomes):
            places = seen.pop((transactor.name, number), Counter())
            what = f"transaction {transactor.name}:{number} ({outcome.name.lower()}, {size})"
            if any(times > 1 for times in places.values()):
                yield f"{what} was read twice"
            whole = len(places) == size
            if outcome is Outcome.COMMITTED and not whole:
                yield f"{what}: only {sorted(places)} were read"
            elif outcome is Outcome.ABORTED and places:
                yield f"{what} was read: {sorted(places)}"
            elif outcome is Outcome.UNKNOWN and places and not whole:
                yield f"{what} was read in part: {sorted(places)}"
    if seen:
        yield f"records of transactions that nobody made: {list(seen)[:EXAMPLES]}"


def check_probe(partition: int, records: Found, acknowledged: Sequence[int]) -> Iterator[str]:
    """Acknowledged records are there, in the order in which they were acknowledged."""
    at = {int(value): offset for offset, value in records}
    before = -1
    for number in acknowledged:
        offset = at.get(number)
        if offset is None:
            yield f"probe-{partition}: {number} was acknowledged and is not there"
        elif offset < before:
            yield f"probe-{partition}: {number} stands before one that was written earlier"
        else:
            before = offset


def check_group(group: Group, visible: Mapping[Place, list[int]], seconds: float) -> Iterator[str]:
    """Every record was given to someone; waits a while for the last ones."""
    deadline = monotonic() + seconds
    for place, offsets in visible.items():
        while missing := group.missing(place, offsets):
            if monotonic() > deadline:
                yield (
                    f"group {group.name} was never given {len(missing)} of {len(offsets)} records "
                    f"of {place[0]}-{place[1]}, as {missing[:EXAMPLES]}"
                )
                break
            sleep(0.2)


def check_stable(committed: Reader, uncommitted: Reader, places: Iterable[Place]) -> Iterator[str]:
    """No transaction is left open: read_committed readers get to the end."""
    deadline = monotonic() + STABLE_WITHIN_SECONDS
    for topic, partition in places:
        while True:
            stable, end = committed.end(topic, partition), uncommitted.end(topic, partition)
            if stable == end:
                break
            if monotonic() > deadline:
                yield f"{topic}-{partition}: the last stable offset is {stable}, the end {end}"
                break
            sleep(0.2)
