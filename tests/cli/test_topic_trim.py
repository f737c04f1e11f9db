import pytest

from ottla.client import Admin, Client, Producer
from ottla.client.cluster import TopicPartition

from .conftest import Ottla

COUNT = 10


@pytest.fixture
def full(client: Client, topic: str) -> str:
    """A topic with ten records in each of its two partitions; timestamps are 1000, 2000, ..."""
    with Producer(client) as producer:
        for partition in (0, 1):
            for number in range(COUNT):
                stamp = (number + 1) * 1000
                producer.send(topic, b"%d" % number, partition=partition, timestamp=stamp)
    return topic


def starts(client: Client, topic: str) -> list[int]:
    found = Admin(client).list_offsets({TopicPartition(topic, number): -2 for number in (0, 1)})
    return [found[TopicPartition(topic, number)].offset for number in (0, 1)]


def test_records_before_an_offset_are_deleted_and_the_partition_is_named(
    ottla: Ottla, client: Client, full: str
) -> None:
    ran = ottla("topic", "trim", full, "--before-offset", "4", "--partition", "1")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines()[2].split() == ["1", "0", "to", "3", "4", "10"]
    assert ran.out.endswith(f"trimmed topic {full}, partition 1\n")
    assert starts(client, full) == [0, 4]
    assert ottla("consume", full, "--partition", "1").out.split() == list("456789")


def test_records_before_a_time_are_deleted_and_those_of_it_are_kept(
    ottla: Ottla, client: Client, full: str
) -> None:
    ran = ottla("topic", "trim", full, "--before-timestamp", "4000ms")
    assert ran.out.endswith(f"trimmed topic {full}, partitions 0, 1\n")
    assert starts(client, full) == [3, 3]


def test_a_time_after_all_records_deletes_all(ottla: Ottla, client: Client, full: str) -> None:
    assert ottla("topic", "trim", full, "--before-timestamp", "2026-01-31T12:00:00Z").status == 0
    assert starts(client, full) == [COUNT, COUNT]


def test_all_records_are_deleted_and_offsets_continue(
    ottla: Ottla, client: Client, full: str
) -> None:
    ran = ottla("topic", "trim", full, "--all", "--json")
    assert ran.json == {
        "name": full,
        "dry_run": False,
        "partitions": [
            {"partition": number, "old_start_offset": 0, "start_offset": 10, "end_offset": 10}
            for number in (0, 1)
        ],
    }
    assert starts(client, full) == [COUNT, COUNT]
    ran = ottla("topic", "trim", full, "--all")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, f"topic {full}: nothing to delete")


def test_a_dry_run_deletes_nothing(ottla: Ottla, client: Client, full: str) -> None:
    ran = ottla("topic", "trim", full, "--all", "--dry-run")
    assert "0 to 9" in ran.out
    assert ran.out.endswith("dry run\n")
    assert starts(client, full) == [0, 0]


def test_an_offset_that_was_deleted_already_changes_nothing(
    ottla: Ottla, client: Client, full: str
) -> None:
    ottla("topic", "trim", full, "--before-offset", "4", "--partition", "1")
    ran = ottla("topic", "trim", full, "--before-offset", "2", "--partition", "1")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, f"topic {full}: nothing to delete")
    assert ran.out.splitlines()[2].split() == ["1", "none", "4", "10"]
    assert starts(client, full) == [0, 4]


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        ((), 2, "give one of --before-offset, --before-timestamp and --all"),
        (("--all", "--before-offset", "1"), 2, "give one of"),
        (("--before-offset", "4"), 2, "--before-offset needs --partition"),
        (("--before-offset", "-1", "--partition", "0"), 2, "is not in the range"),
        (("--before-offset", "11", "--partition", "0"), 1, "before 11; nothing was deleted"),
        (("--before-timestamp", "yesterday"), 2, "an ISO 8601 time"),
        (("--all", "--partition", "2"), 1, "has no partition 2: it has 0 to 1"),
    ],
)
def test_wrong_usage_is_one_line_and_deletes_nothing(
    ottla: Ottla, client: Client, full: str, words: tuple[str, ...], status: int, complaint: str
) -> None:
    ran = ottla("topic", "trim", full, *words)
    assert ran.status == status
    assert ran.err.count("\n") == 1
    assert complaint in ran.err
    assert starts(client, full) == [0, 0]


def test_a_compacted_topic_is_refused_in_plain_words(
    ottla: Ottla, client: Client, full: str
) -> None:
    ottla("topic", "alter", full, "--set", "cleanup.policy=compact")
    ran = ottla("topic", "trim", full, "--all")
    assert (ran.status, ran.out) == (1, "")
    assert "cleanup.policy=compact: only topics with delete can be trimmed" in ran.err
    assert starts(client, full) == [0, 0]


def test_what_was_deleted_is_shown_where_another_partition_fails(
    ottla: Ottla, client: Client, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.wire.errors import ErrorCode, KafkaError

    delete = Admin.delete_records

    def half(admin: Admin, before: dict[TopicPartition, int]) -> None:
        first = min(before)
        delete(admin, {first: before[first]})
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "partition 1: KAFKA_STORAGE_ERROR")

    monkeypatch.setattr(Admin, "delete_records", half)
    ran = ottla("topic", "trim", full, "--all")
    assert ran.status == 1
    assert "KAFKA_STORAGE_ERROR" in ran.err
    assert [line.split()[:2] for line in ran.out.splitlines()[2:4]] == [["0", "0"], ["1", "none"]]
    assert ran.out.endswith(f"trimmed topic {full}, partition 0\n")
