"""How a broker connects to ZooKeeper: TLS, its login, and who may use the nodes that it creates.

Rules kept here:
1. What is wrong or does not fit together is a StoreError in one line, before anything connects.
2. With `zookeeper.set.acl` the nodes are for the one user that the brokers log in as, all of them:
   credentials and ACLs share nodes, and the journal, with the rest.
3. A password is in no repr.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from ottla.config import BrokerConfig
from ottla.metadata.store import StoreError

_DIGEST: Final = "digest"


class ZooKeeperSecurity(msgspec.Struct, frozen=True):
    """What goes beyond an address; nothing of it by default."""

    user: str = ""
    password: str = ""
    only_for_user: bool = False
    use_tls: bool = False
    keystore: str = ""
    keystore_password: str = ""
    truststore: str = ""
    check_hostname: bool = True

    def __repr__(self) -> str:
        return f"ZooKeeperSecurity(user={self.user!r}, use_tls={self.use_tls})"

    def client_options(self) -> dict[str, Any]:
        """The arguments of a KazooClient."""
        options: dict[str, Any] = {}
        if self.user:
            options["auth_data"] = [(_DIGEST, f"{self.user}:{self.password}")]
        if self.only_for_user:
            from kazoo.security import CREATOR_ALL_ACL  # type: ignore[import-untyped]  # no types

            options["default_acl"] = CREATOR_ALL_ACL
        if self.use_tls:
            options |= {"use_ssl": True, "check_hostname": self.check_hostname}
            if self.truststore:
                options["ca"] = self.truststore
            if self.keystore:
                options |= {"certfile": self.keystore, "keyfile": self.keystore}
                options["keyfile_password"] = self.keystore_password or None
        return options


NO_SECURITY: Final = ZooKeeperSecurity()


def zookeeper_security(config: BrokerConfig) -> ZooKeeperSecurity:
    """What the settings ask for; raises StoreError."""
    user, password = _login(config.ottla_zookeeper_auth)
    if config.zookeeper_set_acl and not user:
        raise StoreError("zookeeper.set.acl needs ottla.zookeeper.auth=digest:USER:PASSWORD")
    stores = {
        "zookeeper.ssl.keystore.location": config.zookeeper_ssl_keystore_location,
        "zookeeper.ssl.truststore.location": config.zookeeper_ssl_truststore_location,
    }
    for name, location in stores.items():
        if location:
            if not config.zookeeper_ssl_client_enable:
                raise StoreError(f"{name} has no effect without zookeeper.ssl.client.enable=true")
            _check_pem(name, location)
    return ZooKeeperSecurity(
        user=user,
        password=password,
        only_for_user=config.zookeeper_set_acl,
        use_tls=config.zookeeper_ssl_client_enable,
        keystore=config.zookeeper_ssl_keystore_location,
        keystore_password=config.zookeeper_ssl_keystore_password,
        truststore=config.zookeeper_ssl_truststore_location,
        check_hostname=bool(config.zookeeper_ssl_endpoint_identification_algorithm),
    )


def _login(text: str) -> tuple[str, str]:
    if not text:
        return "", ""
    scheme, _, rest = text.partition(":")
    user, colon, password = rest.partition(":")
    if scheme != _DIGEST or not user or not colon or not password:
        raise StoreError("ottla.zookeeper.auth must have the form digest:USER:PASSWORD")
    return user, password


def _check_pem(name: str, location: str) -> None:
    try:
        content = Path(location).read_bytes()
    except OSError as problem:
        raise StoreError(f"{name}: cannot read {location}: {problem.strerror}") from None
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise StoreError(f"{name}: {location} is not a PEM file with a certificate")
