"""`ottla user`, `ottla acl` and `ottla quota` against a broker with an authorizer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from ottla.embedded import Broker
from ottla.metadata.security_documents import ScramDocument
from tests.server.inside import on_loop, running

from .conftest import Ottla


@pytest.fixture(scope="module")
def ottla_broker() -> Iterator[Broker]:
    with Broker(
        authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS;User:root"
    ) as broker:
        yield broker


def test_a_user_is_added_listed_changed_and_removed(ottla: Ottla, tmp_path: Path) -> None:
    added = ottla("user", "add", "alice")
    assert added.status == 0
    assert "password: " in added.out
    assert ottla("user", "add", "alice").status != 0
    assert ottla("user", "list", "--json").json == [
        {"user": "alice", "mechanisms": {"SCRAM-SHA-512": 4096}}
    ]
    file = tmp_path / "password"
    file.write_text("secret\n")
    changed = ottla(
        "user", "passwd", "alice", "--mechanism", "SCRAM-SHA-256", "--password-file", str(file)
    )
    assert changed.status == 0
    assert "secret" not in changed.out
    assert "SCRAM-SHA-512" in ottla("user", "list").out
    assert "SCRAM-SHA-256" in ottla("user", "list").out
    assert ottla("user", "remove", "alice").status == 0
    assert ottla("user", "list").out == "no users\n"
    assert "does not exist" in ottla("user", "remove", "alice").err


def _credentials(broker: Broker, user: str) -> dict[str, ScramDocument]:
    image = running(broker).node.image
    return on_loop(
        broker,
        lambda: {
            mechanism: each
            for (mechanism, name), each in image.scram_credentials.items()
            if name == user
        },
    )


def test_a_new_password_replaces_those_of_all_mechanisms(
    ottla: Ottla, ottla_broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("old")
    assert ottla("user", "add", "carol", "--password-file", str(file)).status == 0
    flags = ("--mechanism", "SCRAM-SHA-256", "--password-file", str(file))
    assert ottla("user", "passwd", "carol", *flags).status == 0
    stored = _credentials(ottla_broker, "carol")
    assert set(stored) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    changed = ottla("user", "passwd", "carol").out
    assert "SCRAM-SHA-256" in changed
    assert "SCRAM-SHA-512" in changed
    now = _credentials(ottla_broker, "carol")
    assert set(now) == set(stored)
    assert all(now[mechanism] != stored[mechanism] for mechanism in stored)
    assert ottla("user", "remove", "carol").status == 0


def test_acls_are_allowed_denied_checked_listed_and_removed(ottla: Ottla) -> None:
    assert ottla("acl", "list").out == "no ACLs\n"
    assert ottla("acl", "allow", "bob", "--read", "--topic", "orders*", "--group", "g").status == 0
    assert ottla("acl", "deny", "*", "--all", "--topic", "orders.secret").status == 0
    allowed = ottla("acl", "check", "bob", "read", "topic:orders.eu")
    assert allowed.status == 0
    assert "TOPIC:PREFIXED:orders" in allowed.out
    denied = ottla("acl", "check", "bob", "read", "topic:orders.secret")
    assert denied.status == 1
    assert "denied by" in denied.out
    assert "permissionType=DENY" in denied.out
    assert "DefaultDeny" in ottla("acl", "check", "bob", "write", "topic:other").out
    assert "SuperUser" in ottla("acl", "check", "root", "alter", "cluster").out
    listed = ottla("acl", "list", "--topic", "orders.secret", "--json").json
    assert isinstance(listed, list)
    assert {(each["permission"], each["name"]) for each in listed} == {
        ("ALLOW", "orders"),
        ("DENY", "orders.secret"),
    }
    assert ottla("acl", "remove").status == 2
    assert ottla("acl", "remove", "--user", "bob").out == "removed 2 ACLs\n"
    assert ottla("acl", "remove", "--topic", "orders.secret").out == "removed 1 ACL\n"


def test_an_acl_without_an_operation_or_a_resource_is_refused(ottla: Ottla) -> None:
    assert "operation" in ottla("acl", "allow", "bob", "--topic", "t").err
    assert "resource" in ottla("acl", "allow", "bob", "--read").err


def test_quotas_are_set_listed_and_removed(ottla: Ottla) -> None:
    assert ottla("quota", "list").out == "no quotas\n"
    assert ottla("quota", "set", "user=<default>", "producer_byte_rate=1MB").status == 0
    assert ottla("quota", "set", "user=bob", "client-id=x", "request_percentage=12.5").status == 0
    listed = ottla("quota", "list", "--json").json
    assert isinstance(listed, list)
    assert {"entity": {"user": None}, "quotas": {"producer_byte_rate": 1e6}} in listed
    assert {
        "entity": {"user": "bob", "client-id": "x"},
        "quotas": {"request_percentage": 12.5},
    } in listed
    assert "neither" in ottla("quota", "set", "user=bob", "rate=1").err
    assert "greater than 0" in ottla("quota", "set", "user=bob", "producer_byte_rate=0").err
    assert ottla("quota", "remove", "user=bob", "client-id=x", "request_percentage").status == 0
    assert ottla("quota", "remove", "user=<default>").status == 0
    assert ottla("quota", "list").out == "no quotas\n"
