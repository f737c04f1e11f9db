"""A Spark driver that copies a topic to another one, in small batches, and who watches the copy.

What the checks of Spark's sink under faults share: a read_committed reader that fails at the first
record that comes twice, waiting for batches, and keeping the driver alive meanwhile.
"""

import time
from collections.abc import Callable
from typing import Protocol, Self

from confluent_kafka import Message

from compat.spark_driver import Driver
from testkit.waiting import until

PARTITIONS = 4
ROWS_IN_A_BATCH = 400
AHEAD = 4_000
"""So many records the source is ahead of its copy, so that there is always a batch under way."""
LATEST_KILL_SECONDS = 0.6
"""A batch takes about half a second."""
SOURCE, COPY = "source", "copy"
WATCHER: dict[str, str | int | float | bool] = {
    "group.id": "watcher",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
"""The settings of a reader of the copy."""

POLL_SECONDS = 0.1
LOOK_SECONDS = 0.005
ROUND_SECONDS = 600.0


class NotOnceError(Exception):
    """A record was lost or doubled, the counts do not agree, or the query did not get on."""


class Reader(Protocol):
    """What is needed of a consumer of the copy."""

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        """Messages that have come."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class Copying:
    """A copy in the making: who makes it, and who watches it."""

    def __init__(self, driver: Driver, reader: Reader) -> None:
        self.driver = driver
        self.written = 0
        """So many records are in the source, the numbers from 0 on."""
        self.seen: set[int] = set()
        self._reader: Reader | None = reader

    def numbers_ahead(self) -> range:
        """What to write next, so that the source is far enough ahead of what was copied."""
        return range(self.written, max(self.written, len(self.seen) + AHEAD))

    def look(self) -> None:
        """Take in what has come to the copy."""
        assert self._reader is not None
        for message in self._reader.consume(1000, POLL_SECONDS):
            value = message.value()
            if message.error() is not None or not isinstance(value, bytes):
                continue  # a broker is down
            number = int(value)
            if number in self.seen:
                raise NotOnceError(
                    f"record {number} came twice: again in partition {message.partition()} "
                    f"at offset {message.offset()}"
                )
            self.seen.add(number)

    def watch_until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Watch the copy until something is so."""
        deadline = time.monotonic() + ROUND_SECONDS
        while not is_so():
            self.driver.keep_alive()
            self.look()
            if time.monotonic() > deadline:
                raise NotOnceError(
                    f"not in {ROUND_SECONDS:.0f} s: {what}. {len(self.seen)} of {self.written} "
                    f"records are copied; the driver said: {self.driver.last_words()}"
                )

    def watch_until_finished(self, batch: int) -> None:
        """Watch until Spark has finished a batch."""
        self.watch_until(f"batch {batch} is done", lambda: self.driver.last_batch()[1] >= batch)

    def await_moment(self, seconds: float) -> int:
        """Wait so long after a batch was begun, and while one is under way; its number."""
        begun, _ = self.driver.last_batch()
        self._await_batch(lambda last, _: last > begun)
        time.sleep(seconds)
        return self._await_batch(lambda last, finished: last > finished)

    def _await_batch(self, is_it: Callable[[int, int], bool]) -> int:
        def found() -> bool:
            self.driver.keep_alive()
            return is_it(*self.driver.last_batch())

        try:
            until(found, "a batch is begun", ROUND_SECONDS, LOOK_SECONDS)
        except TimeoutError as late:
            raise NotOnceError(f"{late}; the driver said: {self.driver.last_words()}") from None
        return self.driver.last_batch()[0]

    def finish(self) -> None:
        """See that the copy is whole, and that nothing comes after it."""
        self.watch_until("all is copied", lambda: len(self.seen) >= self.written)
        if not self.driver.stop():
            raise NotOnceError(f"the driver did not end well: {self.driver.last_words()}")
        if missing := set(range(self.written)) - self.seen:
            raise NotOnceError(f"{len(missing)} records are missing, such as {min(missing)}")
        for _ in range(3):
            self.look()

    def end_reading(self) -> None:
        """Let the reader go, if it has not gone."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.end()
        self.end_reading()
