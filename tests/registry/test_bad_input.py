"""What a registry is sent by mistake or in malice: a clear error, and it continues."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ottla.embedded import Broker
from testkit.process import BrokerProcess
from testkit.waiting import until
from tests.registry.registries import RegistryProcess, Rest

DEEP = '{"schema":"' + '{\\"type\\":\\"array\\",\\"items\\":' * 5000 + '"}'


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, 400),
        (b"{", 400, 400),
        (b"\xff\xfe", 400, 400),
        (b"[]", 422, 422),
        (b'{"schema":3}', 422, 422),
        (b'{"schema":"x","references":[{"name":1}]}', 422, 422),
        (b'{"schema":""}', 422, 42201),
        (b"{}", 422, 42201),
        (b'{"schema":"{}"}', 422, 42201),
        (b'{"schema":"\\"int\\"","schemaType":"COBOL"}', 422, 42201),
        (b'{"schema":"x","schemaType":"JSON"}', 422, 42201),
        (b'{"schema":"message {","schemaType":"PROTOBUF"}', 422, 42201),
        (DEEP.encode(), 422, 42201),
        (b"[" * 1_000_000, 422, 422),
        (b'{"schema":"\\u0000\\ud800"}', 400, 400),
        (b'{"schema":"\\u0000","schemaType":"PROTOBUF"}', 422, 42201),
    ],
)
def test_a_body_that_cannot_be_used(rest: Rest, body: bytes, status: int, code: int) -> None:
    reply = rest("POST", "/subjects/bad/versions", raw=body)
    assert (reply.status, reply.code) == (status, code)
    assert "Traceback" not in reply.message


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nope", 404),
        ("GET", "/subjects/x/versions/1/2/3/4", 404),
        ("PATCH", "/subjects", 405),
        ("POST", "/schemas/types", 405),
        ("GET", "/schemas/ids/x", 404),
        ("GET", "/schemas/ids/99999999999999999999", 404),
        ("GET", "/schemas/ids/-1", 404),
        ("GET", "/schemas/ids/4711", 40403),
        ("GET", "/subjects/none/versions", 40401),
        ("GET", "/subjects/none/versions/0", 42202),
        ("GET", "/subjects/none/versions/x", 42202),
        ("GET", "/subjects/none/versions/2147483648", 42202),
        ("GET", "/subjects/%ff/versions", 400),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/subjects/..%2f..%2fetc%2fpasswd/versions", 40401),
        ("GET", "/contexts/a:b/subjects", 42208),
        ("DELETE", "/subjects/none", 40401),
        ("DELETE", "/subjects/none/versions/1", 40401),
        ("GET", "/" + "x" * 20_000, 414),
    ],
)
def test_a_path_that_leads_nowhere(rest: Rest, method: str, path: str, code: int) -> None:
    assert rest(method, path).code == code


@pytest.mark.parametrize("subject", ["%20", "__GLOBAL", "a%00b", "a%0Ab", "%1b[31m", "x" * 2000])
def test_a_name_that_no_subject_can_have(rest: Rest, subject: str) -> None:
    assert rest.register(subject, '"int"').code == 42208


@pytest.mark.parametrize("subject", ["a%2Fb", "..", "a%20b", "%C3%BC", "%3Cscript%3E", "a%25b"])
def test_odd_names_are_names(rest: Rest, subject: str) -> None:
    assert rest.register(subject, '"int"').status == 200
    assert rest("GET", f"/subjects/{subject}/versions").body == [1]


def test_a_huge_body_is_refused_before_it_is_read(rest: Rest) -> None:
    where = urlsplit(rest.url)
    assert where.hostname is not None
    with socket.create_connection((where.hostname, where.port or 0), timeout=30) as connection:
        head = (
            b"POST /subjects/x/versions HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000\r\n\r\n"
        )
        connection.sendall(head)
        reply = b""
        part = b" " * 65536
        try:
            for _ in range(1000):
                connection.sendall(part)
        except OSError:
            pass  # it hung up, which is its right
        try:
            reply = connection.recv(65536)
        except OSError:
            pass
        assert not reply or b" 413 " in reply.split(b"\r\n")[0]
    assert rest("GET", "/subjects").status == 200


def test_a_body_of_another_kind(rest: Rest) -> None:
    headers = {"Content-Type": "text/plain"}
    assert rest("POST", "/subjects/x/versions", raw=b"{}", headers=headers).code == 415


def test_noise_instead_of_http(rest: Rest) -> None:
    where = urlsplit(rest.url)
    assert where.hostname is not None
    for noise in (b"\x00" * 100, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00" * 50):
        with socket.create_connection((where.hostname, where.port or 0), timeout=30) as connection:
            connection.sendall(noise + b"\r\n\r\n")
            assert b"Traceback" not in connection.recv(65536)
    assert rest("GET", "/subjects").status == 200


def costly(leaf: str) -> str:
    """A small schema whose comparison takes 25 times as long with every level."""
    definitions: dict[str, object] = {"d0": {"type": leaf}}
    for level in range(1, 12):
        below = {"$ref": f"#/definitions/d{level - 1}"}
        definitions[f"d{level}"] = {
            "anyOf": [
                {"title": str(number), "type": "object", "properties": {"x": below}}
                for number in range(5)
            ]
        }
    return json.dumps({"$ref": "#/definitions/d11", "definitions": definitions})


def test_a_schema_that_takes_too_long_is_refused_and_others_continue(broker: Broker) -> None:
    options = ("--alone", "--topic", "_schemas_slow", "--check-timeout", "2")
    with RegistryProcess(broker.bootstrap_servers, *options) as registry:
        rest = registry.rest()
        assert rest.register("slow", costly("string"), schemaType="JSON").status == 200
        refused = rest.register("slow", costly("number"), schemaType="JSON")
        assert (refused.status, refused.code) == (422, 42201)
        assert "could not be checked within 2 seconds" in refused.message
        assert rest.register("other", '"int"').status == 200


def test_a_broker_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path / "b") as broker,
        RegistryProcess(broker.bootstrap, "--alone") as registry,
    ):
        rest = registry.rest()
        schema_id = rest.register("s", '"int"').body["id"]
        broker.kill()
        assert rest("GET", f"/schemas/ids/{schema_id}").body == {"schema": '"int"'}
        gone = rest.register("s", '"long"')
        assert (gone.status, gone.code) == (500, 50001)
        assert "Error in the backend data store" in gone.message
        broker.start()
        until(lambda: rest.register("s", '"long"').status == 200, "the registry writes again")
        assert rest.register("s", '"long"').body == {"id": 2}
        assert registry.stop() == 0
        assert b"Traceback" not in registry.errors


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1"])
def test_a_web_page_of_another_site_changes_nothing(rest: Rest, origin: str) -> None:
    before = rest("GET", "/subjects").body
    for method, path in (("POST", "/subjects/evil/versions"), ("DELETE", "/subjects/evil")):
        body = {"schema": '"string"'}
        found = rest(method, path, body, headers={"Origin": origin})
        assert (found.status, found.code) == (403, 403)
    assert rest("GET", "/subjects").body == before
    own = {"Origin": rest.url}
    assert rest("POST", "/compatibility/subjects/x/versions", body, headers=own).status == 200
