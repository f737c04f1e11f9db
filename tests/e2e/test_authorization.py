"""ACLs, users and quotas with real clients, on one broker and on three."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported without saying so
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.client import Client, ClientSettings
from ottla.client.security_admin import SecurityAdmin
from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from ottla.embedded import Broker
from ottla.security.acls import AclFilter
from testkit.waiting import stretched, until
from testkit.workers import WorkersProcess

SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
_EVERY: Any = None
ANY = AclBindingFilter(
    ResourceType.ANY,
    _EVERY,
    ResourcePatternType.ANY,
    _EVERY,
    _EVERY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with Broker(
        authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found=True
    ) as broker:
        yield broker.bootstrap_servers


def _deny_writes(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )


def _wait(futures: Any) -> list[Any]:
    return [future.result(20) for future in futures.values()]


def _write(bootstrap: str, topic: str) -> str | None:
    """The error of a producer, None where its record is kept."""
    told: list[str | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 8000})
    producer.produce(
        topic,
        b"x",
        on_delivery=lambda error, _: told.append(None if error is None else error.name()),
    )
    producer.flush(15)
    return told[0]


def test_a_denied_producer_is_told_so_until_the_acl_is_deleted(bootstrap: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    assert _write(bootstrap, "orders") is None
    binding = _deny_writes("orders")
    _wait(admin.create_acls([binding]))
    assert admin.describe_acls(ANY).result(20) == [binding]
    assert _write(bootstrap, "orders") == "TOPIC_AUTHORIZATION_FAILED"
    assert _wait(admin.delete_acls([ANY])) == [[binding]]
    # Now no ACL is about the topic: everyone may write again.
    assert _write(bootstrap, "orders") is None


def test_scram_credentials_are_set_described_and_removed(bootstrap: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    _wait(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("al,ice", info, b"p")]))
    found = admin.describe_user_scram_credentials(["al,ice"])["al,ice"].result(20)
    assert [each.iterations for each in found.scram_credential_infos] == [4096]
    gone = UserScramCredentialDeletion("al,ice", ScramMechanism.SCRAM_SHA_256)
    _wait(admin.alter_user_scram_credentials([gone]))
    with pytest.raises(KafkaException) as refusal:
        admin.describe_user_scram_credentials(["al,ice"])["al,ice"].result(20)
    assert refusal.value.args[0].name() == "RESOURCE_NOT_FOUND"


def test_a_change_is_seen_by_every_broker_within_a_second(tmp_path: Path) -> None:
    with WorkersProcess(tmp_path / "cluster", SETTINGS) as cluster:
        addresses = cluster.bootstrap.split(",")
        assert len(addresses) == 3
        admins: list[Any] = [AdminClient({"bootstrap.servers": each}) for each in addresses]
        _wait(admins[0].create_acls([_deny_writes("orders")]))
        started = time.monotonic()
        clients = [Client(ClientSettings(bootstrap_servers=each)) for each in addresses]
        try:
            until(
                lambda: all(SecurityAdmin(each).acls(AclFilter()) for each in clients),
                "the ACL to be known to every broker",
            )
            assert time.monotonic() - started < stretched(1.0)
        finally:
            for each in clients:
                each.close()
