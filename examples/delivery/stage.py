"""What the delivery examples share: orders to process, workers that crash, and a count at the end.

An example is one function, `work`, which reads the orders and does something about each. `run`
puts ten orders into a new topic and starts `work` in a process of its own. With `--crash POINT`
that process ends at once (`os._exit`: nothing is flushed, closed or said good-bye to) when it comes
to that point with the fifth order, and a second process continues in its place. Then every order is
counted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla

ORDERS = [f"order-{number}" for number in range(1, 11)]
FATAL_ORDER = "order-5"
EXCEPTION = "exception"
"""A crash point that is none: the worker fails there, and continues by itself."""
CRASHED = 77
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Stage:
    """What a worker has to know."""

    bootstrap: str
    name: str
    """Names the topics and the group of this run, so that runs do not meet."""
    folder: Path
    """For what a worker keeps outside of Kafka."""
    crash: str | None
    """The point at which it crashes."""

    @property
    def orders(self) -> str:
        """The topic to read: one partition, so that the order of things is easy to follow."""
        return f"orders-{self.name}"

    @property
    def invoices(self) -> str:
        """The topic to write, where the result goes back into Kafka."""
        return f"invoices-{self.name}"

    @property
    def consumer_settings(self) -> dict[str, str | int | float | bool]:
        """Commits are the worker's business, so the client does none by itself.

        The instance id makes it a static member: a worker that starts again takes its old place at
        once, where the group would else wait for the dead one's session to time out. The short wait
        is for the example's sake: it ends when it has seen the end of the topic.
        """
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": f"billing-{self.name}",
            "group.instance.id": "worker",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }

    def process(self, message: Message) -> None:
        """Do what cannot be taken back, such as to send a mail: here, add a line to a file."""
        with (self.folder / "mails").open("a") as mails:
            mails.write(f"{text(message)}\n")
        say(f"processed {text(message)}")

    def mails(self) -> Counter[str]:
        """How often each order was processed."""
        mails = self.folder / "mails"
        return Counter(mails.read_text().split() if mails.exists() else [])

    def may_crash(self, point: str, messages: Sequence[Message]) -> None:
        """Crash here, if that was asked for and the fatal order is among the messages."""
        if self.crash == point and FATAL_ORDER in map(text, messages):
            say(f"CRASH {point}, with {FATAL_ORDER} in hand")
            os._exit(CRASHED)


def say(line: str) -> None:
    """Tell what a worker does."""
    print(f"  worker {os.getpid()}: {line}", flush=True)


def text(message: Message) -> str:
    """The order in a message."""
    return (message.value() or b"").decode()


def read(consumer: Consumer, end: int = 0) -> Iterator[Message]:
    """The messages of a partition up to its end, which must not be before `end`."""
    deadline = monotonic() + PATIENCE_SECONDS
    while monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        problem = message.error()
        if problem is None:
            yield message
        elif problem.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(problem)
        elif (message.offset() or 0) >= end:
            return
    raise TimeoutError("the end of the topic was not reached")


def run(
    work: Callable[[Stage], None],
    points: Sequence[str],
    count: Callable[[Stage], Counter[str]] = Stage.mails,
) -> None:
    """Run an example, or (in the process that it starts) its worker.

    `points` are where it can crash, the most telling one first; `count` finds out afterwards how
    often each order was processed.
    """
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a broker; by default one is started for the example")
    parser.add_argument(
        "--crash", nargs="?", const=points[0], choices=points, help="where the first worker crashes"
    )
    parser.add_argument("--worker", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        name, folder = asked.worker
        work(Stage(asked.bootstrap, name, Path(folder), asked.crash))
        return
    with ExitStack() as stack:
        # A group of one need not wait for others to join.
        bootstrap = asked.bootstrap or (
            stack.enter_context(ottla.Broker(group_initial_rebalance_delay_ms=0)).bootstrap_servers
        )
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="delivery-"))
        stage = Stage(bootstrap, uuid.uuid4().hex[:8], Path(folder), asked.crash)
        set_up(stage)
        stack.callback(clean_up, stage)
        if start_worker(stage, asked.crash) == CRASHED:
            start_worker(stage, None)
        elif asked.crash not in (None, EXCEPTION):
            sys.exit(f"the worker should have crashed {asked.crash}")
        report(count(stage))


def set_up(stage: Stage) -> None:
    """Make the topics, and put the orders into one."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    try:
        admin.list_topics(timeout=10)
    except KafkaException as problem:
        sys.exit(f"no broker answers at {stage.bootstrap}: {problem.args[0].str()}")
    topics = [NewTopic(name, num_partitions=1) for name in (stage.orders, stage.invoices)]
    for created in admin.create_topics(topics).values():
        created.result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": stage.bootstrap})
    for order in ORDERS:
        producer.produce(stage.orders, order)
    producer.flush()
    print(f"{len(ORDERS)} orders are in topic {stage.orders}")


def clean_up(stage: Stage) -> None:
    """Delete the topics; what the group has committed for them goes along."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for deleted in admin.delete_topics([stage.orders, stage.invoices]).values():
        deleted.result(PATIENCE_SECONDS)


def start_worker(stage: Stage, crash: str | None) -> int:
    """Let a worker do its work; how it ended."""
    command = [sys.executable, sys.argv[0], "--bootstrap", stage.bootstrap]
    command += ["--worker", stage.name, str(stage.folder)]
    command += ["--crash", crash] if crash else []
    status = subprocess.run(command, check=False).returncode
    if status not in (0, CRASHED):
        sys.exit(f"the worker failed with status {status}")
    return status


def report(counted: Counter[str]) -> None:
    """Say how often the orders were processed."""
    print("How often each order was processed:")
    for label, times in (("never", 0), ("once", 1), ("twice", 2)):
        orders = [order for order in ORDERS if counted[order] == times]
        which = f"  ({', '.join(orders)})" if orders and len(orders) < len(ORDERS) / 2 else ""
        print(f"  {label:<6}{len(orders):>3}{which}")
