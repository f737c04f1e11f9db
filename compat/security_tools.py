"""Kafka's own tools for ACLs, users and quotas against a broker with an authorizer."""

from pathlib import Path
from tempfile import TemporaryDirectory

from compat.checks import check, expect, java
from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from testkit.process import BrokerProcess

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@check("tools")
def acls_users_and_quotas(_: BrokerProcess) -> None:
    """AclCommand and ConfigCommand add, list and remove."""
    with TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "b", SETTINGS) as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        acl = "org.apache.kafka.tools.AclCommand"
        alice = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
        java(acl, *at, "--add", *alice)
        listed = java(acl, *at, "--list", "--topic", "orders")
        expect(
            "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed, listed
        )
        java(acl, *at, "--remove", "--force", *alice)
        expect("User:alice" not in java(acl, *at, "--list"), "the ACL is still there")
        config = "kafka.admin.ConfigCommand"
        user = ("--entity-type", "users", "--entity-name", "alice")
        for added in ("SCRAM-SHA-512=[password=x]", "producer_byte_rate=1000"):
            java(config, *at, "--alter", *user, "--add-config", added)
        described = java(config, *at, "--describe", *user)
        expect("SCRAM-SHA-512=iterations=4096" in described, described)
        expect("producer_byte_rate=1000.0" in described, described)
