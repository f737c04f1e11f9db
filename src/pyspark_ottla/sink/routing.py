"""Which rows of Arrow columns go to which partition, and their records, ready to be sent.

Rules kept here:
1. A row goes where its column partition says; else where the Java client would send its key; rows
   without either stay together and go from partition to partition, batch by batch, past those that
   nobody leads, as in the Java client.
2. Rows of one partition keep their order.
3. No Python object is made for a row. A row that cannot be written fails the task, by a text that
   names what is wrong with it.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from ottla.client import TopicPartition
from ottla.records.rows import Rows, group
from pyspark_ottla.sink.columns import Columns
from pyspark_ottla.sink.errors import RowError

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

KEYLESS = -1
BATCH_FOR_PARTITION = 128 << 10
"""Arrow batches are gathered until a partition can expect records of this many bytes at once..."""
MOST_GATHERED = 32 << 20
"""...or this many bytes wait in all."""


class Piece(NamedTuple):
    """The inside of a record batch."""

    where: TopicPartition
    records: bytes
    rows: int
    timestamp_ms: int


class Routing:
    """Turns Arrow batches into pieces, and adds up their rows."""

    def __init__(
        self,
        columns: Columns,
        topic: str | None,
        partition_count: Callable[[str], int],
        led_partitions: Callable[[str], Sequence[int]],
        *,
        batch_bytes: int,
        first_partition: int,
    ) -> None:
        """`partition_count` tells how many partitions a topic has, `led_partitions` which of them
        have a leader; keyless rows begin with the one at the place `first_partition` of those.
        """
        self._columns = columns
        self._topic = topic
        self._partition_count = partition_count
        self._led_partitions = led_partitions
        self._batch_bytes = batch_bytes
        self._turns = count(first_partition)
        self._enough = 0
        self.rows = 0
        self.digest = 0
        """The sum of the rows' hashes, whatever their order; kept if pieces() was asked to."""

    def pieces(
        self, batches: Iterable["pa.RecordBatch"], now_ms: Callable[[], int], *, digest: bool
    ) -> Iterator[Piece]:
        """What is to be sent, as the batches come."""
        for columns in self._gathered(batches):
            yield from self._pieces_of(columns, now_ms(), digest)

    def count_only(self, batches: Iterable["pa.RecordBatch"]) -> None:
        """Add up rows that are not to be sent."""
        for columns in self._gathered(batches):
            self._add(self._rows(columns), digest=True)

    def _gathered(self, batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        waiting: list[pa.RecordBatch] = []
        size = 0
        for item in batches:
            if not item.num_rows:
                continue
            waiting.append(item)
            size += item.nbytes
            if size >= self._enough:
                yield _joined(waiting)
                waiting, size = [], 0
        if waiting:
            yield _joined(waiting)

    def _rows(self, columns: "pa.RecordBatch") -> Rows:
        def column(place: int | None) -> "pa.Array | None":
            return None if place is None else columns.column(place)

        places = self._columns
        return Rows(column(places.key), column(places.value), column(places.headers))

    def _add(self, rows: Rows, *, digest: bool) -> None:
        self.rows += len(rows)
        if digest:
            self.digest = (self.digest + rows.digest()) & (2**64 - 1)

    def _pieces_of(
        self, columns: "pa.RecordBatch", timestamp_ms: int, digest: bool
    ) -> Iterator[Piece]:
        try:
            rows = self._rows(columns)
            self._add(rows, digest=digest)
            if self._topic is not None:
                yield from self._pieces_of_topic(columns, rows, self._topic, timestamp_ms)
                return
            for topic, part in self._by_topic(columns):
                yield from self._pieces_of_topic(part, self._rows(part), topic, timestamp_ms)
        except (TypeError, ValueError) as problem:
            raise RowError(f"rows that cannot be written: {problem}") from None

    def _by_topic(self, columns: "pa.RecordBatch") -> Iterator[tuple[str, "pa.RecordBatch"]]:
        """Each topic with its rows."""
        import pyarrow as pa

        assert self._columns.topic is not None
        topics = columns.column(self._columns.topic)
        if topics.null_count:
            raise RowError(
                "a row has no topic: its column topic is null. "
                "Give each row a topic, or all of them by the option topic"
            )
        encoded = topics.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        if len(names) == 1:
            yield names[0], columns
            return
        for code, positions in group(_int32(encoded.indices)).items():
            chosen = pa.Array.from_buffers(
                pa.int32(), len(positions), [None, pa.py_buffer(positions)]
            )
            yield names[code], columns.take(chosen)

    def _pieces_of_topic(
        self, columns: "pa.RecordBatch", rows: Rows, topic: str, timestamp_ms: int
    ) -> Iterator[Piece]:
        partitions = self._partition_count(topic)
        self._enough = max(self._enough, min(partitions * BATCH_FOR_PARTITION, MOST_GATHERED))
        for partition, positions in self._by_partition(columns, rows, partitions):
            if partition >= partitions:
                raise RowError(
                    f"a row is for partition {partition} of topic {topic}, "
                    f"which has partitions 0 to {partitions - 1}"
                )
            at, end = 0, len(rows) if positions is None else len(positions)
            led: Sequence[int] = ()
            if partition == KEYLESS:  # where nobody leads any of them, all are as good
                led = self._led_partitions(topic) or range(partitions)
            while at < end:
                # A batch without keys goes to one partition, the next one to another.
                target = led[next(self._turns) % len(led)] if led else partition
                records, after = rows.encode(positions, at, self._batch_bytes)
                yield Piece(TopicPartition(topic, target), records, after - at, timestamp_ms)
                at = after

    def _by_partition(
        self, columns: "pa.RecordBatch", rows: Rows, partitions: int
    ) -> Iterable[tuple[int, "array[int] | None"]]:
        """Each partition with the positions of its rows (None for all); KEYLESS for rows that may
        go anywhere.
        """
        places = self._columns
        if places.partition is None and partitions == 1:
            return [(0, None)]
        if places.partition is None and places.key is None:
            return [(KEYLESS, None)]
        targets = rows.partitions(partitions)
        if places.partition is not None:
            targets = _with_given(columns.column(places.partition), targets)
        return group(targets).items()


def _joined(batches: list["pa.RecordBatch"]) -> "pa.RecordBatch":
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    import pyarrow as pa

    return pa.concat_batches(batches)


def _int32(column: "pa.Array") -> memoryview:
    """The numbers of a column without nulls."""
    start = column.offset * 4
    return memoryview(column.buffers()[1])[start : start + len(column) * 4]


def _with_given(given: "pa.Array", targets: "array[int]") -> "array[int]":
    """Where rows go with their column partition, which wins where it is not null."""
    import pyarrow as pa
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # it has no stubs

    if given.null_count == len(given):
        return targets
    lowest = pc.min(given).as_py()
    if lowest < 0:
        raise RowError(f"a row is for partition {lowest}: partitions count from 0")
    by_key = pa.Array.from_buffers(pa.int32(), len(targets), [None, pa.py_buffer(targets)])
    joined = array("i")
    joined.frombytes(_int32(pc.coalesce(given, by_key)))
    return joined
