"""`ottla group` and `ottla consume` with share groups."""

from collections.abc import Iterator

import pytest

from ottla.client import Client, KafkaError, Producer, TopicPartition
from ottla.client.share_group_reader import ShareGroupReader
from ottla.client.share_groups import ShareGroupAdmin, StartOffset
from ottla.embedded import Broker
from ottla.wire.errors import ErrorCode
from testkit.waiting import until

from .conftest import Ottla

RECORDS = 10
GROUP = "workers"


@pytest.fixture(scope="module")
def ottla_broker() -> Iterator[Broker]:
    """All groups begin with the first record."""
    with Broker(
        offsets_topic_num_partitions=1, share_coordinator_state_topic_num_partitions=2
    ) as broker:
        yield broker


@pytest.fixture
def filled(client: Client, topic: str) -> str:
    """A topic with ten records in each of two partitions."""
    with Producer(client) as producer:
        for number in range(RECORDS):
            for partition in (0, 1):
                producer.send(topic, b"%d-%d" % (partition, number), partition=partition)
    return topic


@pytest.fixture
def group(ottla: Ottla, filled: str, request: pytest.FixtureRequest) -> str:
    """A share group that exists, and has nothing of the topic done."""
    name = f"share.{request.node.name}"
    arguments = ("--topic", filled, "--to-earliest", "--share", "--execute")
    assert ottla("group", "reset-offsets", name, *arguments).status == 0
    return name


def starts(client: Client, group: str) -> dict[int, StartOffset]:
    found = ShareGroupAdmin(client).start_offsets(group)
    return {where.partition: own for where, own in found.items()}


def test_consume_as_a_member_of_a_share_group_accepts_what_is_printed(
    ottla: Ottla, client: Client, filled: str, group: str
) -> None:
    ran = ottla("consume", filled, "--share", group)
    assert ran.status == 0, ran.err
    wanted = {f"{partition}-{number}" for partition in (0, 1) for number in range(RECORDS)}
    assert sorted(ran.out.split()) == sorted(wanted)
    assert {own.offset for own in starts(client, group).values()} == {RECORDS}
    assert {own.lag for own in starts(client, group).values()} == {0}
    assert ottla("consume", filled, "--share", group).out == ""


def test_what_was_not_printed_is_delivered_again(ottla: Ottla, filled: str, group: str) -> None:
    some = ottla("consume", filled, "--share", group, "--max", "7").out.split()
    rest = ottla("consume", filled, "--share", group).out.split()
    assert len(some) == 7
    assert not set(some) & set(rest)
    assert len(rest) == 2 * RECORDS - 7


def test_describe_tells_members_start_offsets_lag_and_what_is_in_flight(
    ottla: Ottla, client: Client, ottla_broker: Broker, filled: str, group: str
) -> None:
    with (
        Client(ottla_broker.bootstrap_servers) as other,
        ShareGroupReader(other, group, [filled]) as reader,
    ):
        got: list[int] = []

        def all_are_here() -> bool:
            got.extend(record.offset for batch in reader.poll() for record in batch.records)
            return len(got) == 2 * RECORDS

        until(all_are_here, "all records are held by the member")
        described = ottla("group", "describe", group, "--json").json
        text = ottla("group", "describe", group).out
    assert isinstance(described, list)
    (found,) = described
    assert (found["state"], found["type"], found["total_lag"]) == ("Stable", "share", 20)
    (member,) = found["members"]
    assert [each["partition"] for each in member["assignment"]] == [0, 1]
    assert [
        (item["start"], item["end"], item["lag"], item["in_flight"]) for item in found["partitions"]
    ] == [(0, RECORDS, RECORDS, RECORDS)] * 2
    assert f"{group} is Stable" in text
    assert "in flight" in text
    # The member is gone: it gave everything back.
    assert {own.in_flight for own in starts(client, group).values()} == {None}


def test_a_share_group_is_listed_and_deleted(ottla: Ottla, group: str) -> None:
    listed = ottla("group", "list", "--json").json
    assert isinstance(listed, list)
    assert {"group": group, "state": "Empty", "type": "share", "protocol": "share"} in listed
    assert ottla("group", "delete", group).status == 0
    assert group not in ottla("group", "list").out
    assert ottla("group", "delete", group).status != 0


def test_reset_plans_first_and_moves_the_start_offsets_with_execute(
    ottla: Ottla, client: Client, filled: str, group: str
) -> None:
    plan = ("group", "reset-offsets", group, "--topic", f"{filled}:1", "--to-offset", "4")
    ran = ottla(*plan)
    assert "dry run" in ran.out
    assert {own.offset for own in starts(client, group).values()} == {0}
    assert ottla(*plan, "--execute").status == 0
    assert {number: own.offset for number, own in starts(client, group).items()} == {0: 0, 1: 4}
    shifted = ottla("group", "reset-offsets", group, "--all-topics", "--shift-by", "2", "--execute")
    assert shifted.status == 0
    assert {number: own.offset for number, own in starts(client, group).items()} == {0: 2, 1: 6}


def test_a_share_group_with_members_is_not_reset(
    ottla: Ottla, ottla_broker: Broker, client: Client, filled: str, group: str
) -> None:
    with (
        Client(ottla_broker.bootstrap_servers) as other,
        ShareGroupReader(other, group, [filled]) as reader,
    ):
        until(lambda: reader.poll() and reader.assignment, "the member reads")
        ran = ottla("group", "reset-offsets", group, "--topic", filled, "--to-latest", "--execute")
        assert ran.status != 0
        assert "it has no members" in ran.err
        with pytest.raises(KafkaError) as refused:
            ShareGroupAdmin(client).alter_start_offsets(group, {TopicPartition(filled, 0): 1})
        assert refused.value.code == ErrorCode.NON_EMPTY_GROUP


def test_delete_offsets_forgets_whole_topics(
    ottla: Ottla, client: Client, filled: str, group: str
) -> None:
    some = ottla("group", "delete-offsets", group, "--topic", f"{filled}:0")
    assert some.status != 0
    assert "whole topics" in some.err
    assert ottla("group", "delete-offsets", group, "--topic", filled).status == 0
    assert starts(client, group) == {}


def test_a_group_of_another_kind_cannot_be_shared(
    ottla: Ottla, client: Client, filled: str
) -> None:
    assert ottla("group", "reset-offsets", "classic", "--topic", filled, "--to-earliest",
                 "--execute").status == 0  # fmt: skip
    ran = ottla("consume", filled, "--share", "classic")
    assert ran.status != 0
    assert "Traceback" not in ran.err


def test_share_goes_with_no_options_of_offsets(offline: Ottla) -> None:
    ran = offline("consume", "t", "--share", "g", "--from", "end")
    assert ran.status != 0
    assert "share.auto.offset.reset" in ran.err
