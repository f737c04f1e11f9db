"""`ottla consume --group`: a member of a consumer group that shares, resumes and commits."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from time import monotonic, sleep

from ottla.client import Admin, Client, Producer
from ottla.client.cluster import TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.client.group_reader import GroupReader
from ottla.embedded import Broker
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from testkit.waiting import stretched

from .conftest import Ottla


def fill(client: Client, topic: str, *values: bytes) -> None:
    with Producer(client) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 2)


def committed(client: Client, group: str) -> dict[TopicPartition, int]:
    return {item: at.offset for item, at in GroupAdmin(client).committed_offsets(group).items()}


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end
        sleep(0.05)


def test_a_group_continues_where_it_has_committed(ottla: Ottla, client: Client, topic: str) -> None:
    fill(client, topic, b"a", b"b", b"c")
    ran = ottla("consume", topic, "--group", topic)
    assert (ran.status, sorted(ran.out.split())) == (0, ["a", "b", "c"])
    assert committed(client, topic) == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 1}
    assert ottla("consume", topic, "--group", topic).out == ""
    fill(client, topic, b"d")
    assert ottla("consume", topic, "--group", topic).out == "d\n"
    # It has left, so its offsets can be changed at once.
    GroupAdmin(client).commit_offsets(topic, {TopicPartition(topic, 0): 1})
    assert ottla("consume", topic, "--group", topic).out == "c\nd\n"


def test_only_what_was_printed_is_committed(ottla: Ottla, client: Client, topic: str) -> None:
    fill(client, topic, *(b"%d" % number for number in range(20)))
    seen = []
    for _ in range(4):
        seen += ottla("consume", topic, "--group", topic, "--max", "5").out.split()
    assert sorted(map(int, seen)) == list(range(20))


def test_a_new_group_begins_where_it_is_asked_to(ottla: Ottla, client: Client, topic: str) -> None:
    fill(client, topic, b"old", b"old")
    assert ottla("consume", topic, "--group", topic, "--from", "end").out == ""
    fill(client, topic, b"new")
    assert ottla("consume", topic, "--group", topic, "--from", "end").out == "new\n"


def test_an_offset_that_is_gone_is_said(ottla: Ottla, client: Client, topic: str) -> None:
    fill(client, topic, b"a", b"x", b"b", b"x", b"c")
    GroupAdmin(client).commit_offsets(topic, {TopicPartition(topic, 0): 1})
    Admin(client).delete_records({TopicPartition(topic, 0): 2})
    ran = ottla("consume", topic, "--group", topic)
    assert sorted(ran.out.split()) == ["c", "x", "x"]
    assert "partition 0 of topic" in ran.err
    assert "has no offset 1: it begins at 2 and ends before 3" in ran.err


def test_two_members_share_the_partitions_and_one_takes_over(
    ottla: Ottla, ottla_broker: Broker, client: Client, topic: str
) -> None:
    def member() -> subprocess.Popen[str]:
        arguments = ["consume", topic, "--group", topic, "--follow", "--template", "{value}\\n"]
        return subprocess.Popen(
            [sys.executable, "-m", "ottla", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap_servers},
        )

    admin = GroupAdmin(client)

    def owners() -> list[int]:
        return sorted(len(item.assignment) for item in admin.describe_group(topic).members)

    first = member()
    second = None
    try:
        assert first.stdout is not None
        fill(client, topic, b"one")
        assert first.stdout.readline() == "one\n"
        second = member()
        until(lambda: owners() == [1, 1])
        fill(client, topic, b"two", b"three")
        assert second.stdout is not None
        shared = {first.stdout.readline(), second.stdout.readline()}
        assert shared == {"two\n", "three\n"}
        second.send_signal(signal.SIGINT)
        assert second.wait(stretched(30)) == 130
        until(lambda: owners() == [2])
        # What the second had printed is committed, so nothing comes twice.
        fill(client, topic, b"four", b"five")
        assert {first.stdout.readline(), first.stdout.readline()} == {"four\n", "five\n"}
        first.send_signal(signal.SIGINT)
        assert first.wait(stretched(30)) == 130
        assert sum(committed(client, topic).values()) == 5
        assert admin.describe_group(topic).members == []
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.communicate()


def test_a_member_that_was_put_out_of_the_group_joins_again(
    ottla_broker: Broker, client: Client, topic: str, ottla: Ottla
) -> None:
    fill(client, topic, b"a")

    def begin(partitions: list[TopicPartition], known: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    with GroupReader(client, topic, [topic], begin) as reader:
        until(lambda: bool(reader.poll()))
        (member,) = GroupAdmin(client).describe_group(topic).members
        leave = ConsumerGroupHeartbeatRequest(
            group_id=topic, member_id=member.member_id, member_epoch=-1
        )
        client.call(leave, ConsumerGroupHeartbeatResponse)
        until(lambda: bool(reader.poll()))
        assert reader.assignment == {TopicPartition(topic, 0), TopicPartition(topic, 1)}


def test_partitions_and_groups_exclude_each_other(offline: Ottla) -> None:
    ran = offline("consume", "t", "--group", "g", "--partition", "1")
    assert ran.status == 2
    assert "--partition needs a single topic and no --group" in ran.err
