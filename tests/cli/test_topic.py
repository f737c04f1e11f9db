from .conftest import Ottla


def test_a_created_topic_is_listed(ottla: Ottla, topic: str) -> None:
    listed = ottla("topic", "list", "--json").json
    assert isinstance(listed, list)
    (found,) = [item for item in listed if item["name"] == topic]
    assert (found["partitions"], found["replication_factor"]) == (2, 1)
    assert topic in ottla("topic", "list").out


def test_an_existing_topic_is_an_error_unless_that_is_fine(ottla: Ottla, topic: str) -> None:
    ran = ottla("topic", "create", topic)
    assert ran.status == 1
    assert "already exists" in ran.err
    ran = ottla("topic", "create", topic, "--if-not-exists", "--json")
    assert (ran.status, ran.json) == (0, {"name": topic, "created": False})


def test_a_wrong_setting_is_refused_in_one_line(ottla: Ottla) -> None:
    ran = ottla("topic", "create", "cli.never", "--set", "retention.mss=1")
    assert ran.status == 1
    assert "retention.mss" in ran.err
    assert ran.err.count("\n") == 1


def test_describe_shows_offsets_and_own_settings(ottla: Ottla, topic: str) -> None:
    ottla("produce", topic, "--partition", "1", __file__)
    ottla("topic", "alter", topic, "--set", "retention.ms=1234567")
    described = ottla("topic", "describe", topic, "--json").json
    assert isinstance(described, list)
    (found,) = described
    assert found["settings"] == {"retention.ms": "1234567"}
    first, second = found["partitions"]
    assert (first["start_offset"], first["end_offset"]) == (0, 0)
    assert second["end_offset"] > 10
    text = ottla("topic", "describe", topic).out
    assert "retention.ms=1234567" in text
    assert str(second["end_offset"]) in text


def test_alter_adds_partitions_and_takes_settings_back(ottla: Ottla, topic: str) -> None:
    assert ottla("topic", "alter", topic, "--set", "segment.ms=60000").status == 0
    ran = ottla("topic", "alter", topic, "--partitions", "4", "--unset", "segment.ms", "--json")
    assert ran.json == {"name": topic, "partitions": 4, "set": {}, "unset": ["segment.ms"]}
    described = ottla("topic", "describe", topic, "--json").json
    assert isinstance(described, list)
    assert described[0]["settings"] == {}
    assert len(described[0]["partitions"]) == 4


def test_an_alteration_that_is_refused_changes_nothing(ottla: Ottla, topic: str) -> None:
    ran = ottla("topic", "alter", topic, "--set", "segment.ms=60000", "--partitions", "1")
    assert (ran.status, "would not be an increase" in ran.err) == (1, True)
    described = ottla("topic", "describe", topic, "--json").json
    assert isinstance(described, list)
    assert described[0]["settings"] == {}


def test_json_tells_what_was_deleted_before_a_failure(ottla: Ottla, topic: str) -> None:
    ran = ottla("topic", "delete", topic, f"{topic}.nope", "--json")
    assert (ran.status, ran.json) == (1, [{"name": topic, "deleted": True}])


def test_partitions_are_not_taken_away(ottla: Ottla, topic: str) -> None:
    ran = ottla("topic", "alter", topic, "--partitions", "1")
    assert ran.status == 1
    assert "INVALID_PARTITIONS" in ran.err


def test_a_deleted_topic_is_gone(ottla: Ottla, topic: str) -> None:
    assert ottla("topic", "delete", topic).out == f"deleted topic {topic}\n"
    for words in (("describe", topic), ("delete", topic), ("alter", topic, "--partitions", "9")):
        ran = ottla("topic", *words)
        assert ran.status == 1
        assert ran.err == f"ottla: topic {topic} does not exist (see: ottla topic list)\n"
    ran = ottla("topic", "delete", topic, "--if-exists", "--json")
    assert (ran.status, ran.json) == (0, [{"name": topic, "deleted": False}])


def test_a_topic_has_a_partition_and_a_replica_at_least(ottla: Ottla, topic: str) -> None:
    for words in (
        ("create", "cli.never", "--partitions", "-1"),
        ("create", "cli.never", "--partitions", "0"),
        ("create", "cli.never", "--replication-factor", "-1"),
        ("alter", topic, "--partitions", "0"),
    ):
        ran = ottla("topic", *words)
        assert ran.status == 2
        assert "is not in the range" in ran.err
        assert ran.err.count("\n") == 1
    assert "cli.never" not in ottla("topic", "list").out


def test_a_misspelt_setting_is_not_taken_back_in_silence(ottla: Ottla, topic: str) -> None:
    ran = ottla("topic", "alter", topic, "--unset", "retention.mss")
    assert ran.status == 2
    assert "Unknown topic config name: retention.mss (did you mean retention.ms?)" in ran.err
