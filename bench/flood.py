"""A producer without a client library: the same request again and again, to one partition after
another, many on their way at once.

librdkafka's own cost grows with the number of partitions it writes to, so that with ten thousand
of them it measures itself. Here only the partition number in a ready-made request changes: what
is left to differ is the broker.
"""

import random
import socket
import struct
import time
from collections.abc import Iterable, Iterator

from crc32c import crc32c

from bench.client import Throughput
from testkit.errors import HarnessError
from testkit.probe import CLIENT_ID, read_frame
from testkit.server import Server

PRODUCE_KEY = 0
PRODUCE_VERSION = 7
TIMEOUT_MS = 30_000
IN_FLIGHT = 64  # requests on their way
TOGETHER = 8  # requests handed to the kernel in one call
# Codes of a partition that is not there yet: unknown partition, not leader.
NOT_YET = {3, 6}
NOT_YET_SECONDS = 240
RETRY_SECONDS = 0.05
CRC_START = 21  # what the checksum covers begins after the checksum itself


def record_batch(messages: int, size: int) -> bytes:
    """A RecordBatch v2 of keyless records with `size` random bytes each."""
    source = random.Random(messages * size)
    records = b"".join(_record(index, source.randbytes(size)) for index in range(messages))
    now = int(time.time() * 1000)
    no_producer = struct.pack(">qhi", -1, -1, -1)
    covered = struct.pack(">hiqq", 0, messages - 1, now, now) + no_producer
    covered += struct.pack(">i", messages) + records
    head = struct.pack(">iBI", -1, 2, crc32c(covered))
    return struct.pack(">qi", 0, len(head) + len(covered)) + head + covered


def produce_request(topic: str, partition: int, batch: bytes) -> bytes:
    """A framed Produce request with acks=1; the partition is also its correlation id."""
    name = topic.encode()
    body = b"".join(
        (
            struct.pack(">hhih", PRODUCE_KEY, PRODUCE_VERSION, partition, len(CLIENT_ID)),
            CLIENT_ID,
            struct.pack(">hhiih", -1, 1, TIMEOUT_MS, 1, len(name)),
            name,
            struct.pack(">iii", 1, partition, len(batch)),
            batch,
        )
    )
    return struct.pack(">i", len(body)) + body


def error_in(response: bytes, topic: str) -> tuple[int, int]:
    """The partition and the error code of an answer to such a request."""
    partition, error = struct.unpack_from(">ih", response, 4 + 4 + 2 + len(topic.encode()) + 4)
    return int(partition), int(error)


def fill(server: Server, topic: str, partitions: int, batch: bytes) -> None:
    """A batch to every partition, waiting for those that the server is still creating."""
    give_up = time.monotonic() + NOT_YET_SECONDS
    waiting = list(range(partitions))
    with _connect(server) as connection:
        while waiting:
            answers = list(_exchange(connection, topic, waiting, batch))
            waiting = [partition for partition, error in answers if error in NOT_YET]
            _refuse_errors(topic, (answer for answer in answers if answer[1] not in NOT_YET))
            if waiting:
                if time.monotonic() > give_up:
                    raise HarnessError(f"{len(waiting)} partitions of {topic} cannot be written")
                time.sleep(RETRY_SECONDS)


def flood(
    server: Server, topic: str, partitions: list[int], batch: bytes, seconds: float = float("inf")
) -> Throughput:
    """One batch to each of `partitions` in turn, or to as many as `seconds` allow."""
    messages_a_batch = struct.unpack_from(">i", batch, 57)[0]
    with _connect(server) as connection:
        cpu = time.thread_time()
        began = time.monotonic()
        sent = 0
        for answer in _exchange(connection, topic, partitions, batch, began + seconds):
            _refuse_errors(topic, [answer])
            sent += 1
        took = time.monotonic() - began
        cpu = time.thread_time() - cpu
    return Throughput(messages=sent * messages_a_batch, seconds=took, cpu=cpu, busiest_thread=cpu)


def _exchange(
    connection: socket.socket,
    topic: str,
    partitions: list[int],
    batch: bytes,
    until: float = float("inf"),
) -> Iterator[tuple[int, int]]:
    """Sends a request for each partition and gives the answers (partition, error code)."""
    in_flight = 0
    answers = connection.makefile("rb")
    for start in range(0, len(partitions), TOGETHER):
        if time.monotonic() > until:
            break
        group = partitions[start : start + TOGETHER]
        connection.sendall(b"".join(produce_request(topic, number, batch) for number in group))
        in_flight += len(group)
        while in_flight > IN_FLIGHT - TOGETHER:
            yield error_in(read_frame(answers), topic)
            in_flight -= 1
    for _ in range(in_flight):
        yield error_in(read_frame(answers), topic)


def _refuse_errors(topic: str, answers: Iterable[tuple[int, int]]) -> None:
    for partition, error in answers:
        if error:
            raise HarnessError(f"produce to {topic}-{partition}: error code {error}")


def _connect(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=NOT_YET_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _record(index: int, value: bytes) -> bytes:
    # attributes, timestamp delta, offset delta, no key, value, no headers
    body = b"\0\0" + _varint(index) + _varint(-1) + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
