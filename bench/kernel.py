"""How fast records become Arrow columns and back, on one core: the native kernel and the pure one.

`python -m bench.kernel` shows it; `rows` makes the rows of the speed table. Nothing is compared
with Kafka here, so its side of a row is empty.
"""

import os
from collections.abc import Callable
from time import perf_counter

import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

from bench.rows import Goal, Row
from bench.sizes import MESSAGE_BYTES
from ottla.records.columns import RecordColumns
from ottla.records.compression import Codec
from ottla.records.kernel import NATIVE, PURE, Kernel
from ottla.records.rows import Rows, batch

KEY_BYTES = 16
BATCH = 1_000  # records
BATCHES = 10  # of a table, which is then as large as those that Spark reads best
NATIVE_ROUNDS = 100  # tables of a sample
PURE_ROUNDS = 2
SAMPLES = 5
NOW = 1_700_000_000_000
DECODE = "record batches to Arrow"
ENCODE = "Arrow to record batches"
GOALS = {DECODE: Goal(at_least=5e6), ENCODE: Goal(at_least=3e6)}


def table() -> tuple[pa.Array, pa.Array]:
    """Keys and values of a table: half of a value is noise, so that codecs have something to do."""
    count = BATCH * BATCHES
    text = (b"spam and eggs " * MESSAGE_BYTES)[: MESSAGE_BYTES // 2]
    keys = [b"%0*d" % (KEY_BYTES, number) for number in range(count)]
    values = [os.urandom(MESSAGE_BYTES - len(text)) + text for _ in range(count)]
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


def encode(kernel: Kernel, keys: pa.Array, values: pa.Array, codec: Codec) -> list[bytes]:
    """The batches of a table, as a producer makes them; partitions and digest are part of it."""
    rows = Rows(keys, values, kernel=kernel)
    rows.partitions(12)
    rows.digest()
    size = BATCH * (KEY_BYTES + MESSAGE_BYTES + 12)
    batches, start = [], 0
    while start < len(rows):
        inside, end = rows.encode(None, start, size)
        batches.append(batch(inside, end - start, timestamp_ms=NOW, codec=codec))
        start = end
    return batches


def decode(kernel: Kernel, batches: list[bytes]) -> pa.RecordBatch:
    """A table from its batches, as a consumer reads them."""
    columns = RecordColumns(kernel=kernel)
    for each in batches:
        columns.add(each, 0, 2**63 - 1)
    return columns.take()


def rates(work: Callable[[], object], rounds: int) -> list[float]:
    """Records a second of each sample."""
    work()
    samples = []
    for _ in range(SAMPLES):
        began = perf_counter()
        for _ in range(rounds):
            work()
        samples.append(rounds * BATCH * BATCHES / (perf_counter() - began))
    return samples


def rows() -> list[Row]:
    """The rows of the speed table."""
    keys, values = table()
    kernels = (
        [(PURE, PURE_ROUNDS)] if NATIVE is None else [(NATIVE, NATIVE_ROUNDS), (PURE, PURE_ROUNDS)]
    )
    found = []
    for kernel, rounds in kernels:
        for codec in (Codec.NONE, Codec.LZ4):
            batches = encode(kernel, keys, values, codec)

            def decoding(kernel: Kernel = kernel, batches: list[bytes] = batches) -> object:
                return decode(kernel, batches)

            def encoding(kernel: Kernel = kernel, codec: Codec = codec) -> object:
                return encode(kernel, keys, values, codec)

            figure = f"{kernel.name}, {codec.name.lower()}"
            for work, run in ((DECODE, decoding), (ENCODE, encoding)):
                wanted = GOALS[work] if kernel is NATIVE and codec is Codec.NONE else Goal()
                found.append(Row(work, figure, "/s", [], rates(run, rounds), wanted))
    return found


if __name__ == "__main__":
    for row in rows():
        print(f"{row.work}, {row.figure}: {row.cells()[1]}, best {max(row.ottla):,.0f}/s")
