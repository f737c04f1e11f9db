"""Kerberos principals, rules and settings; what Kafka's KerberosShortNamer says is expected."""

import pytest

from ottla.config.errors import ConfigError
from ottla.security.kerberos import (
    KerberosAcceptor,
    KerberosLogin,
    acceptor,
    login,
    parse_rules,
    short_name,
)

KEYTAB = {"keyTab": "/k", "principal": "kafka/host@R"}


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        ("DEFAULT", "alice@R", "alice"),
        ("DEFAULT", "kafka/host.example@R", "kafka"),
        ("DEFAULT", "alice@OTHER", None),
        ("DEFAULT", "alice", None),
        ("DEFAULT", "a/b/c@R", None),
        ("RULE:[1:$1]", "alice@OTHER", "alice"),
        ("RULE:[1:$1]", "alice/host@OTHER", None),
        ("RULE:[2:$1-$2]", "alice/admin@R", "alice-admin"),
        ("RULE:[2:$1@$0](.*@R)s/@.*//", "kafka/host@R", "kafka"),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//", "alice@R", None),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//,DEFAULT", "alice@R", "alice"),
        ("RULE:[1:$1]/L", "ALICE@R", "alice"),
        ("RULE:[1:$1]/U", "alice@R", "ALICE"),
        ("RULE:[1:$1](A.*)s/A/b//L", "AnnA@R", "bnna"),
        ("RULE:[1:$1]s/a/b/g", "banana@R", "bbnbnb"),
        ("RULE:[1:$1]s/a/b/", "banana@R", "bbnana"),
        ("RULE:[1:$1]s/(.)(.)/$2$1/", "abc@R", "bac"),
        # What still looks like a principal is nobody.
        ("RULE:[1:$1@$0],DEFAULT", "alice@R", None),
        ("RULE:[2:$1/$2]", "alice/admin@R", None),
    ],
)
def test_a_principal_becomes_a_user_by_the_first_rule_that_fits(
    rules: str, principal: str, user: str | None
) -> None:
    assert short_name(parse_rules(rules.split(","), "R"), principal) == user


def test_without_a_default_realm_nobody_is_of_it() -> None:
    assert short_name(parse_rules(["DEFAULT"], ""), "alice@") is None


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:", "RULE:[1:$2]", "RULE:[:$1]", "RULE:[1:$1](()", "RULE:[1:$1]x"]
)
def test_malformed_rules_are_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.principal\.to\.local\.rules"):
        parse_rules([rule], "R")


def test_a_listener_needs_a_service_a_principal_and_a_keytab() -> None:
    assert acceptor(KEYTAB, "kafka", ["DEFAULT"], "x") == KerberosAcceptor(
        "kafka/host@R", "/k", "x", ("DEFAULT",)
    )
    with pytest.raises(ConfigError, match=r"needs sasl\.kerberos\.service\.name"):
        acceptor(KEYTAB, None, ["DEFAULT"], "x")
    with pytest.raises(ConfigError, match="set only one"):
        acceptor({**KEYTAB, "serviceName": "other"}, "kafka", ["DEFAULT"], "x")
    for missing in KEYTAB:
        options = {name: text for name, text in KEYTAB.items() if name != missing}
        with pytest.raises(ConfigError, match="GSSAPI has no key"):
            acceptor(options, "kafka", ["DEFAULT"], "x")


def test_a_client_has_a_keytab_or_the_tickets_of_kinit() -> None:
    assert login({}, "kafka", "x") == KerberosLogin("kafka")
    assert login({"serviceName": "kafka", "useKeyTab": "true", **KEYTAB}, None, "x") == (
        KerberosLogin("kafka", "kafka/host@R", "/k")
    )
    with pytest.raises(ConfigError, match="needs keyTab and principal"):
        login({"useKeyTab": "true"}, "kafka", "x")
