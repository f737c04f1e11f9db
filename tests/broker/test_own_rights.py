"""A broker that may not replicate says so when it starts."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.metadata.authorization import Authorization
from ottla.broker.replication.own_rights import own_principal, report_own_rights
from ottla.config import BrokerConfig
from ottla.config.broker_network_configs import STANDARD_AUTHORIZER
from testkit.certificates import Certificates, plain_users


def settings(folder: Path, **more: str) -> dict[str, str]:
    login = plain_users(broker="x").replace(";", ' username="broker" password="x";')
    return {
        **Certificates(folder).broker_config(),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        "ottla.store": f"sqlite:{folder / 'cluster.sqlite'}",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        **{name.replace("__", "."): text for name, text in more.items()},
    }


@pytest.mark.parametrize(
    ("super_users", "said"),
    [("User:admin", ["User:broker"]), ("User:admin;User:broker", [])],
)
def test_it_is_said_at_the_start(tmp_path: Path, super_users: str, said: list[str]) -> None:
    config = BrokerConfig.from_static(settings(tmp_path, super__users=super_users))
    with capture_logs() as logged:
        report_own_rights(config, Authorization(config).authorizer, "127.0.0.1")
    found = [each["principal"] for each in logged if "may not replicate" in each["event"]]
    assert found == said


def test_it_is_who_its_login_or_its_certificate_says(tmp_path: Path) -> None:
    def own(**more: str) -> str:
        return str(own_principal(BrokerConfig.from_static(settings(tmp_path, **more))))

    assert own() == "User:broker"
    tls = {"listeners": "SSL://127.0.0.1:0"}
    assert own(**tls) == "User:ANONYMOUS"
    shown = own(**tls, ssl__client__auth="required")
    assert "CN=broker" in shown
    rules = "RULE:^.*CN=([^,]+).*$/$1/"
    mapped = own(**tls, ssl__client__auth="required", ssl__principal__mapping__rules=rules)
    assert mapped == "User:broker"
    assert own(listeners="PLAINTEXT://127.0.0.1:0") == "User:ANONYMOUS"
