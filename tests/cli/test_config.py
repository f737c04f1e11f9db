from ottla.config.broker_configs import BROKER_CONFIGS
from ottla.config.topic_configs import TOPIC_CONFIGS

from .conftest import Ottla


def test_all_settings_are_listed_without_a_broker(offline: Ottla) -> None:
    listed = offline("config", "list", "--json").json
    assert isinstance(listed, list)
    names = {(item["scope"], item["name"]) for item in listed}
    for scope, table in (("topic", TOPIC_CONFIGS), ("broker", BROKER_CONFIGS)):
        assert {(scope, item.name) for item in table.values() if not item.internal} <= names
    assert all(item["documentation"] for item in listed)


def test_the_list_can_be_narrowed_and_explained(offline: Ottla) -> None:
    ran = offline("config", "list", "topic", "retention.ms", "--docs")
    assert "retention.ms  (topic, long, default: 604800000" in ran.out
    assert "log.retention" not in ran.out
    table = offline("config", "list", "broker", "log.retention").out
    assert "see log.retention.minutes" in table
    ran = offline("config", "list", "topic", "nosuch")
    assert (ran.status, ran.err) == (1, "ottla: no setting has 'nosuch' in its name\n")


def test_a_topics_settings_are_altered_described_and_deleted(ottla: Ottla, topic: str) -> None:
    assert "no settings of its own" in ottla("config", "describe", "topic", topic).out
    ran = ottla("config", "alter", "topic", topic, "retention.ms=5000", "segment.ms=70000")
    assert ran.out == f"set retention.ms, segment.ms of topic {topic}\n"
    described = ottla("config", "describe", "topic", topic, "--json").json
    assert isinstance(described, list)
    assert [(item["name"], item["value"], item["source"]) for item in described] == [
        ("retention.ms", "5000", "DYNAMIC_TOPIC_CONFIG"),
        ("segment.ms", "70000", "DYNAMIC_TOPIC_CONFIG"),
    ]
    assert ottla("config", "delete", "topic", topic, "retention.ms", "segment.ms").status == 0
    assert ottla("config", "describe", "topic", topic, "--json").json == []


def test_defaults_are_shown_when_asked_for(ottla: Ottla, topic: str) -> None:
    everything = ottla("config", "describe", "topic", topic, "--all", "--json").json
    assert isinstance(everything, list)
    assert len(everything) > 20
    one = ottla("config", "describe", "topic", topic, "retention.ms").out
    assert "604800000" in one
    ran = ottla("config", "describe", "topic", topic, "retention.mss")
    assert ran.status == 1
    assert "no setting retention.mss (see: ottla config list topic)" in ran.err


def test_all_brokers_together_have_settings(ottla: Ottla) -> None:
    name = "log.segment.delete.delay.ms"
    assert ottla("config", "alter", "broker", "default", f"{name}=61000").status == 0
    try:
        described = ottla("config", "describe", "broker", "default", "--json").json
        assert isinstance(described, list)
        assert {item["name"]: item["value"] for item in described} == {name: "61000"}
        assert "61000" in ottla("config", "describe", "broker", "1").out
    finally:
        # Other tests use the same broker.
        deleted = ottla("config", "delete", "broker", "default", name)
    assert deleted.status == 0
    assert ottla("config", "describe", "broker", "default", "--json").json == []
    nothing = ottla("config", "describe", "broker", "default", "--all").out
    assert nothing.startswith("no setting is set for all brokers (")
    wrong = ottla("config", "alter", "broker", "default", f"{name}=soon")
    assert wrong.err.startswith("ottla: all brokers: Invalid value soon")


def test_a_read_only_setting_is_refused(ottla: Ottla) -> None:
    ran = ottla("config", "alter", "broker", "1", "log.dirs=/elsewhere")
    assert ran.status == 1
    assert "log.dirs" in ran.err
    assert ran.err.count("\n") == 1


def test_an_unknown_setting_of_a_broker_is_refused(ottla: Ottla) -> None:
    ran = ottla("config", "alter", "broker", "default", "retention.ms=5")
    assert ran.status == 2
    assert "Unknown config name: retention.ms (did you mean log.retention.ms?)" in ran.err


def test_a_broker_that_does_not_exist_is_named(ottla: Ottla) -> None:
    ran = ottla("config", "describe", "broker", "99")
    assert (ran.status, ran.err) == (1, "ottla: there is no broker 99; there are 1\n")


def test_a_group_has_settings_of_its_own(ottla: Ottla, topic: str) -> None:
    name, group = "consumer.session.timeout.ms", f"{topic}.group"
    assert ottla("config", "alter", "group", group, f"{name}=50000").status == 0
    described = ottla("config", "describe", "group", group, "--json").json
    assert isinstance(described, list)
    assert [(item["name"], item["value"], item["source"]) for item in described] == [
        (name, "50000", "DYNAMIC_GROUP_CONFIG")
    ]
    assert ottla("config", "delete", "group", group, name).status == 0
    assert "no settings of its own" in ottla("config", "describe", "group", group).out
    ran = ottla("config", "alter", "group", group, f"{name}=1")
    assert ran.status == 1
    assert "group.consumer.min.session.timeout.ms" in ran.err
    assert name in ottla("config", "list", "group").out


def test_a_misspelt_setting_is_not_deleted_in_silence(ottla: Ottla, topic: str) -> None:
    ran = ottla("config", "delete", "topic", topic, "retention.mss")
    assert (ran.status, ran.out) == (2, "")
    assert "did you mean retention.ms?" in ran.err
    ran = ottla("config", "delete", "broker", "default", "log.retention.mss")
    assert (ran.status, ran.out) == (2, "")
    assert "did you mean log.retention.ms?" in ran.err
