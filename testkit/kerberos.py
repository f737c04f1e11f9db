"""A Kerberos realm on this machine: a KDC of its own, with keytabs.

Needs MIT's krb5kdc (Debian: krb5-kdc, krb5-admin-server, krb5-user) and the package k5test.
"""

from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from testkit.certificates import Certificates
from testkit.process import BrokerProcess
from testkit.server import free_port

SERVICE, HOST = "kafka", "localhost"
KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_PLAIN_NAMES = {"libdefaults": {"rdns": "false", "dns_canonicalize_hostname": "false"}}


class Realm:
    """`with` it; its principals have keytabs in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._realm: Any = None

    def __enter__(self) -> Self:
        kind = import_module("k5test").K5Realm
        self._realm = kind(
            portbase=free_port(3), create_user=False, create_host=False, krb5_conf=_PLAIN_NAMES
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._realm.stop()

    @property
    def environment(self) -> dict[str, str]:
        """Where programs find the realm."""
        return {name: text for name, text in self._realm.env.items() if name.startswith("KRB5")}

    def principal(self, name: str) -> str:
        """A name of this realm in full."""
        return f"{name}@{self._realm.realm}"

    def keytab(self, name: str) -> Path:
        """The key of a principal, which is made."""
        path = self._folder / f"{name.replace('/', '-')}.keytab"
        self._realm.addprinc(self.principal(name))
        self._realm.extract_keytab(self.principal(name), str(path))
        path.chmod(0o600)
        return path

    def change_key(self, name: str) -> None:
        """Give a principal a new key; keytabs keep the old one."""
        self._realm.run_kadminl(["change_password", "-randkey", self.principal(name)])

    def kinit(self, name: str, keytab: Path) -> dict[str, str]:
        """The environment of a program with tickets of a principal."""
        self._realm.kinit(self.principal(name), flags=["-k", "-t", str(keytab)])
        return self.environment

    def jaas(self, name: str, keytab: Path) -> str:
        """A JAAS line with a keytab."""
        return (
            f"{KRB5_MODULE} required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="{self.principal(name)}";'
        )


class KerberosBroker(BrokerProcess):
    """A broker that wants tickets of a realm, over SASL_SSL; PLAINTEXT is the harness's own."""

    def __init__(self, folder: Path, realm: Realm, service: str = SERVICE) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.certificates = Certificates(folder)
        self.service = service
        self.secure_port = free_port()
        keytab = realm.keytab(f"{service}/{HOST}")
        self.environment = realm.environment
        self.settings = {
            **self.certificates.broker_config(),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},SASL_SSL://{HOST}:{self.secure_port}",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": service,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": f"User:alice;User:{service};User:ANONYMOUS",
            "listener.name.sasl_ssl.gssapi.sasl.jaas.config": realm.jaas(
                f"{service}/{HOST}", keytab
            ),
        }

    @property
    def secure_bootstrap(self) -> str:
        """Where clients with tickets connect."""
        return f"{HOST}:{self.secure_port}"

    def client_properties(self, jaas: str) -> dict[str, str]:
        """Of Kafka's clients and ours."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": self.service,
            "sasl.jaas.config": jaas,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca),
        }
