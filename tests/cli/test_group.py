from collections.abc import Iterator, Mapping

import pytest

from ottla.client import Client, Producer, TopicPartition
from ottla.client.group_admin import GroupAdmin
from ottla.embedded import Broker
from tests.client.joining import member

from .conftest import Ottla

RECORDS = 10
FIRST_TIMESTAMP = 1_600_000_000_000


@pytest.fixture(scope="module")
def ottla_broker() -> Iterator[Broker]:
    """Groups of one need not wait for others to join."""
    with Broker(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3) as broker:
        yield broker


@pytest.fixture
def filled(client: Client, topic: str) -> str:
    """A topic with ten records, a second apart, in each of two partitions."""
    with Producer(client) as producer:
        for number in range(RECORDS):
            for partition in (0, 1):
                stamp = FIRST_TIMESTAMP + 1000 * number
                producer.send(topic, b"x", partition=partition, timestamp=stamp)
    return topic


@pytest.fixture
def group(client: Client, filled: str, request: pytest.FixtureRequest) -> str:
    """A group without members that has read 4 of partition 0 and all of partition 1."""
    name = f"cli.{request.node.name}"
    offsets = {TopicPartition(filled, 0): 4, TopicPartition(filled, 1): RECORDS}
    GroupAdmin(client).commit_offsets(name, offsets)
    return name


def committed(client: Client, group: str) -> dict[int, int]:
    found = GroupAdmin(client).committed_offsets(group)
    return {item.partition: own.offset for item, own in found.items()}


def test_a_group_is_listed_with_its_state(ottla: Ottla, group: str) -> None:
    listed = ottla("group", "list", "--json").json
    assert isinstance(listed, list)
    assert {"group": group, "state": "Empty", "type": "classic", "protocol": ""} in listed
    assert group in ottla("group", "list", "--state", "empty").out
    assert group not in ottla("group", "list", "--state", "Stable").out
    assert "[Stable|Empty|PreparingRebalance|" in "".join(ottla("group", "list", "-h").out.split())


def test_describe_tells_the_lag(ottla: Ottla, group: str, filled: str) -> None:
    described = ottla("group", "describe", group, "--json").json
    assert isinstance(described, list)
    (found,) = described
    assert (found["state"], found["total_lag"], found["members"]) == ("Empty", 6, [])
    assert [(item["committed"], item["end"], item["lag"]) for item in found["partitions"]] == [
        (4, RECORDS, 6),
        (RECORDS, RECORDS, 0),
    ]
    text = ottla("group", "describe", group).out
    assert f"{group} is Empty" in text
    assert "total lag: 6\n" in text
    assert filled in text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_describe_tells_who_reads_what(
    ottla: Ottla, ottla_broker: Broker, filled: str, group: str, protocol: str
) -> None:
    with member(ottla_broker.bootstrap_servers, group, filled, protocol):
        described = ottla("group", "describe", group, "--json").json
        text = ottla("group", "describe", group).out
    assert isinstance(described, list)
    (found,) = described
    (reader,) = found["members"]
    assert (found["state"], found["type"]) == ("Stable", protocol)
    assert reader["client_id"] == "joining"
    assert [item["partition"] for item in reader["assignment"]] == [0, 1]
    assert {item["member_id"] for item in found["partitions"]} == {reader["member_id"]}
    assert f"{filled} 0,1" in text


def test_a_partition_that_nothing_is_committed_for_has_no_lag(
    ottla: Ottla, ottla_broker: Broker, filled: str
) -> None:
    with member(ottla_broker.bootstrap_servers, "cli.fresh", filled):
        text = ottla("group", "describe", "cli.fresh").out
    assert "total lag: 0 (not known for 2 of 2 partitions)" in text


def test_a_reset_is_a_dry_run_unless_told_otherwise(
    ottla: Ottla, client: Client, group: str, filled: str
) -> None:
    words = ("group", "reset-offsets", group, "--topic", filled, "--to-earliest")
    ran = ottla(*words)
    assert (ran.status, "dry run" in ran.out) == (0, True)
    assert committed(client, group) == {0: 4, 1: RECORDS}
    ran = ottla(*words, "--execute")
    assert (ran.status, "dry run" in ran.out) == (0, False)
    assert committed(client, group) == {0: 0, 1: 0}


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: RECORDS, 1: RECORDS}),
        (["--to-offset", "3"], {0: 3, 1: 3}),
        (["--shift-by", "-2"], {0: 2, 1: 8}),
        (["--to-timestamp", f"{FIRST_TIMESTAMP + 2001}ms"], {0: 3, 1: 3}),
        (["--to-timestamp", "2020-09-13T12:26:45Z"], {0: 5, 1: 5}),
        (["--to-timestamp", "2100-01-01T00:00:00Z"], {0: RECORDS, 1: RECORDS}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_offsets_are_reset_to_a_target(
    ottla: Ottla, client: Client, group: str, target: list[str], reached: Mapping[int, int]
) -> None:
    ran = ottla("group", "reset-offsets", group, "--all-topics", *target, "--execute", "--json")
    assert ran.err == ""
    assert isinstance(ran.json, dict)
    assert (ran.json["executed"], ran.json["existed"]) == (True, True)
    shown = {item["partition"]: (item["from"], item["to"]) for item in ran.json["partitions"]}
    assert shown == {0: (4, reached[0]), 1: (RECORDS, reached[1])}
    assert committed(client, group) == reached


@pytest.mark.parametrize(("target", "reached"), [("-100", 0), ("100", RECORDS)])
def test_an_offset_that_is_not_there_becomes_the_nearest_and_is_reported(
    ottla: Ottla, client: Client, group: str, target: str, reached: int
) -> None:
    ran = ottla("group", "reset-offsets", group, "--all-topics", "--shift-by", target, "--execute")
    assert ran.status == 0
    assert "it begins at 0 and ends before 10" in ran.err
    assert committed(client, group) == {0: reached, 1: reached}


def test_a_reset_touches_only_the_partitions_named(
    ottla: Ottla, client: Client, group: str, filled: str
) -> None:
    ottla(
        "group", "reset-offsets", group, "--topic", f"{filled}:1", "--to-offset", "7", "--execute"
    )
    assert committed(client, group) == {0: 4, 1: 7}


def test_a_reset_of_a_group_that_is_not_there_makes_it(
    ottla: Ottla, client: Client, filled: str
) -> None:
    words = ("group", "reset-offsets", "cli.made", "--topic", filled, "--to-latest")
    assert "there is no group cli.made yet" in ottla(*words).out
    assert "a new group" in ottla(*words, "--execute").out
    assert committed(client, "cli.made") == {0: RECORDS, 1: RECORDS}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group_is_not_reset(
    ottla: Ottla, ottla_broker: Broker, client: Client, filled: str, group: str, protocol: str
) -> None:
    with member(ottla_broker.bootstrap_servers, group, filled, protocol):
        ran = ottla("group", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
        deleted = ottla("group", "delete", group)
    assert ran.status == deleted.status == 1
    assert f"group {group} is Stable: offsets can be reset only while it has no members" in ran.err
    assert "it has members (NON_EMPTY_GROUP) (stop them first" in deleted.err
    assert committed(client, group) == {0: 4, 1: RECORDS}


def test_what_cannot_be_reset_is_one_line(ottla: Ottla, group: str, filled: str) -> None:
    for words, told in (
        ((group, "--topic", "cli.nosuch", "--to-latest"), "topic cli.nosuch does not exist"),
        ((group, "--topic", f"{filled}:0,2", "--to-latest"), "has no partition 2: it has 0 to 1"),
        (("cli.none", "--all-topics", "--to-latest"), "has committed no offsets"),
        (("cli.none", "--topic", filled, "--shift-by", "1"), "nothing to shift"),
    ):
        ran = ottla("group", "reset-offsets", *words)
        assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert told in ran.err


def test_offsets_are_deleted_where_told(
    ottla: Ottla, client: Client, group: str, filled: str
) -> None:
    ran = ottla("group", "delete-offsets", group, "--topic", f"{filled}:0", "--json")
    assert (ran.status, ran.json) == (
        0,
        [{"topic": filled, "partition": 0, "deleted": True, "error": None}],
    )
    assert committed(client, group) == {1: RECORDS}


def test_offsets_that_a_member_needs_are_not_deleted(
    ottla: Ottla, ottla_broker: Broker, client: Client, group: str, filled: str
) -> None:
    with member(ottla_broker.bootstrap_servers, group, filled):
        ran = ottla("group", "delete-offsets", group, "--topic", filled)
    assert ran.status == 1
    assert "of 2 of 2 partitions were not deleted: GROUP_SUBSCRIBED_TO_TOPIC" in ran.err
    assert committed(client, group) == {0: 4, 1: RECORDS}


def test_a_deleted_group_is_gone(ottla: Ottla, group: str) -> None:
    assert ottla("group", "delete", group).out == f"deleted group {group}\n"
    for words in (("describe", group), ("delete", group)):
        ran = ottla("group", *words)
        assert ran.status == 1
        assert ran.err == f"ottla: there is no consumer group {group} (see: ottla group list)\n"
    ran = ottla("group", "delete", group, "--if-exists", "--json")
    assert (ran.status, ran.json) == (0, [{"group": group, "deleted": False}])


def test_a_deleted_topic_is_not_in_the_way(ottla: Ottla, group: str, filled: str) -> None:
    other = f"{filled}.other"
    ottla("topic", "create", other)
    words = ("group", "reset-offsets", group, "--topic", other, "--to-latest", "--execute")
    assert ottla(*words).status == 0
    ottla("topic", "delete", filled)
    assert other in ottla("group", "describe", group).out
    assert ottla("group", "reset-offsets", group, "--all-topics", "--to-earliest").status == 0
