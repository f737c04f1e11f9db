"""Who may ask, what is refused, and what is said when the cluster is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from ottla.cli.main import command
from ottla.client import Admin, Client, ClientSettings
from ottla.client.security import ClientSecurity, client_security
from ottla.console.login import IDLE_SECONDS, ConsoleLoginFailed, Sessions, as_user
from ottla.console.run import ConsoleError, Parts, check_login
from ottla.console.settings import ConsoleSettings, Login
from ottla.console.users import ConsoleUsersError, UsersFile
from ottla.embedded import Broker
from ottla.embedded_security import Security
from ottla.registry.security import hash_password
from ottla.security.attempts import MOST_BY_ADDRESS
from testkit.server import free_port
from tests.console.consoles import ORIGIN, OWN, console, parts_of

EVERY_PAGE = ("/", "/topics", "/topics/orders", "/topics/orders/messages", "/groups", "/history")


def test_every_answer_has_a_strict_policy(pages: TestClient) -> None:
    for path in ("/", "/topics/orders/messages", "/nowhere", "/static/console.css", "/healthz"):
        headers = pages.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_no_page_has_inline_script_or_style(pages: TestClient) -> None:
    for path in (*EVERY_PAGE, "/brokers", "/access", "/audit", "/group?id=billing"):
        text = pages.get(path).text
        assert " style=" not in text
        assert "<style" not in text
        assert " onclick=" not in text
        assert text.count("<script") == text.count('<script src="/static/')


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example"])
def test_another_host_name_is_refused(pages: TestClient, host: str) -> None:
    answer = pages.get("/", headers={"host": host})
    assert answer.status_code == 403
    assert "orders" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://evil.example"}, {"origin": "null"},
     {"origin": OWN, "sec-fetch-site": "cross-site"}],
)  # fmt: skip
def test_a_write_from_another_site_is_refused(pages: TestClient, headers: dict[str, str]) -> None:
    answer = pages.post("/topics/orders/produce", data={"value": "forged"}, headers=headers)
    assert answer.status_code == 403
    assert "forged" not in pages.get("/topics/orders/messages").text


def test_with_read_only_nothing_that_writes_exists(filled: Broker) -> None:
    with console(filled.bootstrap_servers, read_only=True) as pages:
        for path in ("/topics/orders/produce", "/group/reset", "/transactions/abort"):
            assert pages.get(path).status_code == 404
            assert pages.post(path, headers=ORIGIN).status_code == 404
        assert "/produce" not in pages.get("/topics/orders").text
        assert "/group/reset" not in pages.get("/group?id=billing").text
        assert "read-only" in pages.get("/").text


def test_with_hide_values_no_content_is_shown_or_searched(filled: Broker) -> None:
    with console(filled.bootstrap_servers, hide_values=True) as pages:
        for path in ("messages", "messages?value=Brno", "messages?key=nothing", "message?offset=0"):
            text = pages.get(f"/topics/orders/{path}").text
            assert "customer-" not in text
            assert "city" not in text
            assert "hidden" in text
        found = pages.get("/topics/orders/messages?value=nothing-has-this&limit=10").text
        assert found.count("/message?partition=") == 10, "a filter would tell the content"
        assert pages.get("/topics/orders/value?partition=0&offset=0").status_code == 400


def test_a_form_that_is_too_large_is_refused(pages: TestClient) -> None:
    large = {"value": "x" * (3 << 20)}
    assert pages.post("/topics/orders/produce", data=large, headers=ORIGIN).status_code == 400
    wrong = pages.post("/topics/orders/produce", content=b"value=%ff", headers=ORIGIN)
    assert wrong.status_code == 400


def test_another_address_needs_a_login() -> None:
    for host in ("0.0.0.0", "::", "10.0.0.1", "console.example"):
        with pytest.raises(ConsoleError, match="other machines"):
            check_login(ConsoleSettings(bootstrap_servers="x:1", host=host))
    for host in ("127.0.0.1", "::1", "localhost"):
        check_login(ConsoleSettings(bootstrap_servers="x:1", host=host))
    with pytest.raises(ConsoleError, match="SASL"):
        check_login(ConsoleSettings(bootstrap_servers="x:1", login=Login.SASL))


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "console.users"
    arguments = ["console", "user", "add", "alice", "--users", str(path), "--password", "secret"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert "secret" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    return path


def test_a_login_is_needed_and_ends(filled: Broker, users: Path) -> None:
    settings = {"host": "10.0.0.1", "login": Login.USERS, "users_file": users}
    with console(filled.bootstrap_servers, **settings) as pages:
        for path in EVERY_PAGE:
            answer = pages.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
        refused = pages.post("/topics/orders/produce", data={"value": "x"}, headers=ORIGIN)
        assert refused.headers["location"] == "/login"
        assert pages.get("/login").status_code == 200
        for user, password in (("alice", "wrong"), ("bob", "secret"), ("alice", "")):
            form = {"user": user, "password": password}
            assert pages.post("/login", data=form, headers=ORIGIN).status_code == 401
        form = {"user": "alice", "password": "secret"}
        assert pages.post("/login", data=form).status_code == 403, "without an origin"
        done = pages.post("/login", data=form, headers=ORIGIN)
        assert done.status_code == 303
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert pages.get("/topics").status_code == 200
        assert "alice" in pages.get("/").text
        token = pages.cookies["ottla_console"]
        pages.post("/logout", headers=ORIGIN)
        pages.cookies.set("ottla_console", token)
        assert pages.get("/topics").status_code == 303, "an old cookie is worth nothing"


def test_sessions_end_without_use(filled: Broker, users: Path) -> None:
    settings = ConsoleSettings(bootstrap_servers="x:1", login=Login.USERS, users_file=users)
    clock = [0.0]
    parts = Parts(settings)
    sessions = Sessions(settings, parts.cluster, UsersFile(users), now=lambda: clock[0])
    token = sessions.begin("alice", "secret", "10.0.0.2")
    assert sessions.find(token) is not None
    clock[0] = IDLE_SECONDS + 1
    assert sessions.find(token) is None
    assert sessions.find("made up") is None
    parts.close()


def test_a_session_ends_when_its_user_is_removed_or_gets_another_password(
    filled: Broker, users: Path
) -> None:
    settings = {"host": "10.0.0.1", "login": Login.USERS, "users_file": users}
    form = {"user": "alice", "password": "secret"}
    with console(filled.bootstrap_servers, **settings) as pages:
        kept = users.read_text()
        for changed in ("bob " + kept.split()[1], f"alice {hash_password('other')}", None):
            users.write_text(kept)
            assert pages.post("/login", data=form, headers=ORIGIN).status_code == 303
            assert pages.get("/topics").status_code == 200
            if changed is None:
                users.unlink()
            else:
                users.write_text(f"{changed}\n")
            assert pages.get("/topics").status_code == 303


def test_passwords_are_not_guessed_at_leisure(filled: Broker, users: Path) -> None:
    settings = {"host": "10.0.0.1", "login": Login.USERS, "users_file": users}
    with console(filled.bootstrap_servers, **settings) as pages:
        for number in range(MOST_BY_ADDRESS):
            form = {"user": f"user-{number}", "password": "wrong"}
            assert pages.post("/login", data=form, headers=ORIGIN).status_code == 401
        form = {"user": "alice", "password": "secret"}
        refused = pages.post("/login", data=form, headers=ORIGIN)
        assert refused.status_code == 429
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert "Too many logins have failed" in refused.text


def test_strangers_do_not_learn_where_the_cluster_is(filled: Broker, users: Path) -> None:
    settings = {"host": "10.0.0.1", "login": Login.USERS, "users_file": users}
    with console(filled.bootstrap_servers, **settings) as pages:
        for path in ("/login", "/nowhere", "/static/nothing"):
            assert filled.bootstrap_servers not in pages.get(path).text


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", None])
def test_a_login_that_needs_no_password_is_refused(mechanism: str | None) -> None:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.credentials.client.id": "console",
        "sasl.oauthbearer.client.credentials.client.secret": "own",
    }
    security = client_security(given)
    assert security is not None
    if mechanism is None:
        security = ClientSecurity(security.protocol, ())
    with pytest.raises(ConsoleError, match="one of PLAIN"):
        check_login(ConsoleSettings(bootstrap_servers="x:1", login=Login.SASL, security=security))


def test_a_users_file_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("bob secret\n")
    with pytest.raises(ConsoleUsersError, match="line 1"):
        UsersFile(path)
    path.write_text("# nobody\n")
    with pytest.raises(ConsoleUsersError, match="no users"):
        UsersFile(path)


@pytest.fixture
def secured() -> Iterator[Broker]:
    security = Security(users={"eve": "secret"}, tls=False, authorizer=True)
    with Broker(security=security) as broker:
        yield broker


def test_the_brokers_own_users_log_in_and_acls_decide(secured: Broker, tmp_path: Path) -> None:
    given = {name: str(text) for name, text in secured.client_config(client="java").items()}
    security = client_security(given)
    assert security is not None
    where = secured.bootstrap_servers
    with Client(ClientSettings(bootstrap_servers=where, security=security)) as client:
        Admin(client).create_topic("secret-topic", partitions=1)
    _, admin, password = security.credentials()
    with console(where, login=Login.SASL, security=security, data=tmp_path) as pages:
        history = parts_of(pages).console.history
        assert history is not None
        history.add(1000, {"topic:secret-topic": 5.0}, {})

        def drawn() -> object:
            return pages.get("/history?series=topic:secret-topic").json()["lines"]

        def log_in(user: str, password: str) -> int:
            pages.cookies.clear()
            form = {"user": user, "password": password}
            return pages.post("/login", data=form, headers=ORIGIN).status_code

        assert log_in(admin, "wrong") == 401
        assert log_in(admin, "${env:HOME}") == 401
        assert log_in(admin, password) == 303
        assert "secret-topic" in pages.get("/topics").text
        assert drawn() == [[5.0]]
        assert log_in("eve", "secret") == 303
        assert "secret-topic" not in pages.get("/topics").text
        assert drawn() == [[0.0]]
        assert pages.get("/topics/secret-topic").status_code in (403, 404)


def test_a_login_cannot_break_out_of_its_place() -> None:
    security = client_security({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"})
    assert security is not None
    user, password = 'a" username="admin', 'x"; y\\'
    assert as_user(security, user, password).credentials() == ("PLAIN", user, password)
    for wrong in ("a\nb", "${env:HOME}", "a\0"):
        with pytest.raises(ConsoleLoginFailed):
            as_user(security, wrong, "x")


def test_a_cluster_that_is_gone_is_reported_and_comes_back(tmp_path: Path) -> None:
    port = free_port()
    with console(f"127.0.0.1:{port}") as pages:
        gone = pages.get("/topics")
        assert gone.status_code == 503
        assert "cannot be reached" in gone.text
        assert gone.headers["refresh"]
        assert pages.get("/healthz").status_code == 200
        with Broker(port=port, data=tmp_path):
            assert pages.get("/topics").status_code == 200
        assert pages.get("/").status_code == 503
        with Broker(port=port, data=tmp_path):
            assert pages.get("/").status_code == 200
