"""JAAS lines, mapping rules and references to secrets."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import BrokerConfig
from ottla.config.errors import ConfigError
from ottla.security.jaas import parse_jaas
from ottla.security.listeners import insecure_listeners
from ottla.security.mapping import mapped, parse_mapping_rules
from ottla.security.secrets import Secret, resolve

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_jaas_line_has_a_module_and_options() -> None:
    jaas = parse_jaas(
        f"{PLAIN} required /* users */ username=\"admin\" password='a;\\'=b'\n"
        'user_admin="x\\"y" user_bob=plain-word.1 serviceName=kafka;'
    )
    assert jaas.module == PLAIN
    assert jaas.options["password"] == "a;'=b"
    assert jaas.users == {"admin": 'x"y', "bob": "plain-word.1"}
    assert "admin" not in repr(jaas)


@pytest.mark.parametrize(
    "text",
    [
        "", ";", PLAIN, f"{PLAIN} required", f"{PLAIN} maybe a=b;", f"{PLAIN} required a=;",
        f'{PLAIN} required a="b;', f"{PLAIN} required =b;", f"{PLAIN} required a b;",
        f"{PLAIN} required a=b; {PLAIN} required;", f"{PLAIN} required a=s3cret a=s3cret;",
        f"{PLAIN} required a={{;", "= required ;",
    ],
)  # fmt: skip
def test_malformed_jaas_lines_give_one_error_without_values(text: str) -> None:
    with pytest.raises(ConfigError) as problem:
        parse_jaas(text, "listener.name.x.sasl.jaas.config")
    said = str(problem.value)
    assert "listener.name.x.sasl.jaas.config" in said
    assert "s3cret" not in said
    assert "\n" not in said


@given(st.text())
def test_any_text_is_a_jaas_line_or_an_error(text: str) -> None:
    try:
        parse_jaas(text)
    except ConfigError:
        pass


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text()))
def test_quoted_options_are_read_back(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
        return value.replace("\n", "\\n")

    text = " ".join(f'{name}="{quoted(value)}"' for name, value in options.items())
    assert parse_jaas(f"{PLAIN} required {text};").options == options


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        (
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
            "CN=serviceuser,OU=ServiceUsers,O=U",
            "serviceuser",
        ),
        ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT", "CN=Adm,OU=X", "adm@x"),
        ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/U , DEFAULT", "CN=Adm,OU=X", "ADM@X"),
        ("RULE:^CN=([^,]+)$/$1/,RULE:^UID=(.*)$/u-$1/", "UID=7", "u-7"),
        ("RULE:^CN=(.*)$/$2-$1/", "CN=x", "$2-x"),
        ("RULE:a\\/b/c\\/d/", "a/b", "c/d"),
        ("RULE:^CN=x$/y/", "CN=xx", None),
    ],
)
def test_mapping_rules(rules: str, name: str, user: str | None) -> None:
    assert mapped(parse_mapping_rules(rules), name) == user


@pytest.mark.parametrize(
    "rules", ["RULE:a/b", "RULE:(/b/", "other", "DEFAULT;DEFAULT", "RULE:a/b/X"]
)
def test_malformed_rules_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="invalid"):
        parse_mapping_rules(rules)


def test_references_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("a=1\npw = hunter2\n")
    (tmp_path / "token").write_text("t0ken")
    text = f"x ${{env:HOME_OF}} ${{file:{tmp_path}/s.properties:pw}} ${{dir:{tmp_path}:token}} $1"
    assert resolve(text, {"HOME_OF": "me"}) == "x me hunter2 t0ken $1"
    assert resolve("${other:x}", {}) == "${other:x}"


@pytest.mark.parametrize(
    "text",
    ["${env:NOPE}", "${file:/nowhere:key}", "${file:x}", "${dir:/tmp:../passwd}", "${dir:/nope:x}",
     "${dir:/tmp:a/b}"],
)  # fmt: skip
def test_references_that_lead_nowhere_are_one_error(text: str) -> None:
    with pytest.raises(ConfigError) as problem:
        resolve(f"secret-before {text}", {})
    assert text in str(problem.value)
    assert "secret-before" not in str(problem.value)


def test_a_secret_shows_nothing_and_travels() -> None:
    secret = Secret("hunter2")
    assert "hunter2" not in f"{secret} {secret!r} {[secret]}"
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert secret != Secret("hunter3")
    assert secret.reveal() == "hunter2"


@pytest.mark.parametrize(("jwks", "insecure"), [("file:///keys.json", 0), ("", 1)])
def test_a_listener_that_takes_tokens_that_anyone_can_write_does_not_authenticate(
    jwks: str, insecure: int
) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://0.0.0.0:9092",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "ottla.allow.unsecured.jwt": "true",
    }
    if jwks:
        settings["sasl.oauthbearer.jwks.endpoint.url"] = jwks
    assert len(insecure_listeners(BrokerConfig.from_static(settings))) == insecure
