"""The works of share groups: Kafka's own ShareConsumerPerformance, and how soon a new group reads.

Each is a function from the arena and the running servers to its rows; goals are the issue's. The
tool reads the same topic round after round as one group, whose start offset is set back in between:
so its rate has nothing of the time that a new group takes, which is a figure of its own.
"""

import subprocess
import time
from functools import partial

from confluent_kafka import ShareConsumer

from bench import disk, topics
from bench.arena import Arena, Pair, Run, timed
from bench.client import Throughput
from bench.rows import Goal, Row
from bench.sizes import MESSAGE_BYTES
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from testkit import java_runtime
from testkit.errors import HarnessError
from testkit.raw import Connection
from testkit.server import Server
from testkit.share_groups import read_from_beginning
from testkit.waiting import until

RATE = "share group, ShareConsumerPerformance"
FIRST = "new share group"
TOPIC = GROUP = "share"
TOOL = "org.apache.kafka.tools.ShareConsumerPerformance"
TOOL_SECONDS = 300
POLL_SECONDS = 0.1
FIRST_SECONDS = 60


def rate(arena: Arena, pair: Pair) -> list[Row]:
    """One consumer of a group reads and accepts one partition from the page cache."""
    messages = arena.sizes.shared
    for server in pair:
        arena.say(f"share: filling {server.name}")
        topics.create(server, TOPIC)
        arena.client.produce(server, TOPIC, messages=messages, size=MESSAGE_BYTES)

    def once(server: Server, _: int) -> Run:
        until(partial(_set_back, server), "the group is empty and set back", FIRST_SECONDS)
        disk.warm(server.segments(TOPIC))
        return timed(server, partial(_consume, server, messages))

    kafka, ottla = arena.take_turns("share", pair, once, _shown)
    for server in pair:
        topics.delete(server, TOPIC)
    rates = [run.rate for run in kafka], [run.rate for run in ottla]
    cpu = [run.cpu_us for run in kafka], [run.cpu_us for run in ottla]
    return [
        Row(RATE, "rate", "/s", *rates, Goal(ratio_at_least=1.5)),
        Row(RATE, "broker CPU a message", "µs", *cpu, Goal(ratio_at_most=0.5)),
    ]


def first(arena: Arena, pair: Pair) -> list[Row]:
    """From the subscription of a new group's only member to the first record."""
    topic = "share-first"
    for server in pair:
        topics.create(server, topic)
        arena.client.produce(server, topic, messages=1, size=MESSAGE_BYTES)

    def once(server: Server, number: int) -> float:
        group = f"share-first-{number}"
        read_from_beginning(server.bootstrap, group)
        return _first_record(server, group, topic)

    kafka, ottla = arena.take_turns(
        "share-first", pair, once, lambda seconds: f"{seconds * 1e3:,.1f} ms", warm_up=1
    )
    return [Row(FIRST, "first record", "s", kafka, ottla, Goal(ratio_at_most=0.1))]


def _set_back(server: Server) -> bool:
    """Let the group begin anew; False while it still has its member."""
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[partition])
    request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    with Connection(server.bootstrap) as connection:
        # Kafka makes the topic of coordinators when somebody looks for one.
        look = FindCoordinatorRequest(coordinator_keys=[GROUP])
        connection.ask(look, FindCoordinatorResponse, 4)
        answer = connection.ask(request, AlterShareGroupOffsetsResponse, 0)
    codes = {each.error_code for found in answer.responses for each in found.partitions}
    return answer.error_code == ErrorCode.NONE and codes == {ErrorCode.NONE}


def _consume(server: Server, messages: int) -> Throughput:
    """Run the tool to its end; seconds are its own, from the subscription to the last record."""
    command = java_runtime.command(
        TOOL,
        *("--bootstrap-server", server.bootstrap, "--topic", TOPIC, "--group", GROUP),
        *("--num-records", str(messages), "--timeout", str(TOOL_SECONDS * 1000)),
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or len(lines) < 2 or "WARNING" in done.stdout:
        raise HarnessError(f"{TOOL}: {(done.stderr or done.stdout).strip()[:300]}")
    told = dict(zip(*(line.split(", ") for line in lines[-2:]), strict=True))
    return Throughput(
        messages=int(told["data.consumed.in.nMsg"]),
        seconds=int(told["fetch.time.ms"]) / 1e3,
        cpu=0.0,
        busiest_thread=0.0,
    )


def _first_record(server: Server, group: str, topic: str) -> float:
    consumer = ShareConsumer(
        {"bootstrap.servers": server.bootstrap, "group.id": group, "log_level": 0}
    )
    began = time.monotonic()
    consumer.subscribe([topic])
    while time.monotonic() < began + FIRST_SECONDS:
        if any(each.error() is None for each in consumer.poll(POLL_SECONDS)):
            seconds = time.monotonic() - began
            consumer.close()
            return seconds
    raise HarnessError(f"{server.name}: no record for a new share group")


def _shown(run: Run) -> str:
    return f"{run.rate:,.0f}/s, broker {run.cpu_us:.2f} µs each"
