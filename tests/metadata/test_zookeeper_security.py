"""A login to ZooKeeper, and nodes that nobody else may read; settings that do not fit together."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient  # type: ignore[import-untyped]  # it has no types
from kazoo.exceptions import NoAuthError  # type: ignore[import-untyped]

from ottla.config import BrokerConfig
from ottla.metadata.store import Create, StoreError
from ottla.metadata.stores.zookeeper_address import parse_address
from ottla.metadata.stores.zookeeper_security import ZooKeeperSecurity, zookeeper_security
from ottla.metadata.stores.zookeeper_store import ZooKeeperStore
from testkit.zookeeper_servers import Ensemble

STORE = "zookeeper://127.0.0.1/x"


@pytest.fixture
def other(zookeeper: Ensemble) -> Iterator[KazooClient]:
    """A client that has not logged in."""
    client = KazooClient(f"127.0.0.1:{zookeeper.servers[0].port}")
    client.start()
    yield client
    client.stop()
    client.close()


def nodes(client: KazooClient, path: str) -> Iterator[str]:
    yield path
    for name in client.get_children(path):
        yield from nodes(client, f"{path}/{name}")


def security(**settings: str) -> ZooKeeperSecurity:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return zookeeper_security(BrokerConfig.from_static({"ottla.store": STORE, **given}))


def test_the_nodes_of_a_store_are_for_its_user_alone(
    zookeeper: Ensemble, other: KazooClient
) -> None:
    own = security(ottla_zookeeper_auth="digest:ottla:secret", zookeeper_set_acl="true")
    address = parse_address(zookeeper.address("/secured"))._replace(security=own)

    async def live() -> None:
        first = await ZooKeeperStore.open(address, "one")
        await first.commit([Create("scram/alice", b"hidden")])
        second = await ZooKeeperStore.open(address, "two")
        found = await second.read("scram/alice")
        assert found is not None
        assert found.value == b"hidden"
        for store in (first, second):
            await store.close()
        wrong = security(ottla_zookeeper_auth="digest:ottla:guessed", zookeeper_set_acl="true")
        with pytest.raises(StoreError, match=r"ottla\.zookeeper\.auth"):
            await ZooKeeperStore.open(address._replace(security=wrong), "three", connect_timeout=2)

    asyncio.run(live())
    with pytest.raises(NoAuthError):
        other.get("/secured")
    other.add_auth("digest", "ottla:secret")
    seen = list(nodes(other, "/secured"))
    assert len(seen) > 2
    for path in seen:
        (acl,) = other.get_acls(path)[0]
        assert (acl.id.scheme, acl.id.id.split(":")[0]) == ("digest", "ottla")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"zookeeper_set_acl": "true"}, "needs ottla.zookeeper.auth"),
        ({"ottla_zookeeper_auth": "secret"}, "digest:USER:PASSWORD"),
        ({"ottla_zookeeper_auth": "sasl:a:b"}, "digest:USER:PASSWORD"),
        ({"zookeeper_ssl_truststore_location": "/x"}, "zookeeper.ssl.client.enable"),
        (
            {
                "zookeeper_ssl_client_enable": "true",
                "zookeeper_ssl_truststore_location": "/not/there",
            },
            "cannot read /not/there",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    settings: dict[str, str], problem: str
) -> None:
    with pytest.raises(StoreError) as refusal:
        security(**settings)
    assert problem in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_truststore_that_is_not_pem_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(StoreError, match="is not a PEM file"):
        security(zookeeper_ssl_client_enable="true", zookeeper_ssl_truststore_location=str(store))


def test_the_password_is_in_no_repr() -> None:
    assert "secret" not in repr(security(ottla_zookeeper_auth="digest:ottla:secret"))
