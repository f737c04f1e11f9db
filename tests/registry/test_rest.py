"""Confluent's REST interface, path by path, against a real registry on a real broker."""

import base64
import json
import urllib.request
from pathlib import Path

import pytest

from ottla.embedded import Broker
from tests.registry.registries import V1_JSON, RegistryProcess, Rest

A = {"name": "a", "type": "int"}
V1 = {"type": "record", "name": "R", "fields": [A]}
V2 = {"type": "record", "name": "R", "fields": [A, {"name": "b", "type": "int", "default": 1}]}
V3 = {"type": "record", "name": "R", "fields": [A, {"name": "c", "type": "int"}]}


def test_a_schema_is_registered_found_and_listed(rest: Rest) -> None:
    found = rest.register("found-value", V1)
    assert found.status == 200
    assert found.headers["content-type"] == V1_JSON
    schema_id = found.body["id"]
    text = json.dumps(V1, separators=(",", ":"))
    assert rest("GET", f"/schemas/ids/{schema_id}").body == {"schema": text}
    assert rest("GET", f"/schemas/ids/{schema_id}/schema").body == V1
    assert rest("GET", f"/schemas/ids/{schema_id}/subjects").body == ["found-value"]
    assert rest("GET", f"/schemas/ids/{schema_id}/versions").body == [
        {"subject": "found-value", "version": 1}
    ]
    version = {"subject": "found-value", "version": 1, "id": schema_id, "schema": text}
    assert rest("GET", "/subjects/found-value/versions/1").body == version
    assert rest("GET", "/subjects/found-value/versions/latest").body == version
    assert rest("GET", "/subjects/found-value/versions/-1").body == version
    assert rest("GET", "/subjects/found-value/versions/1/schema").body == V1
    assert rest("POST", "/subjects/found-value", {"schema": json.dumps(V1)}).body == version
    assert rest("GET", "/subjects/found-value/versions").body == [1]
    assert "found-value" in rest("GET", "/subjects").body
    assert rest("GET", "/subjects?subjectPrefix=found").body == ["found-value"]
    assert version in rest("GET", "/schemas").body
    assert rest("GET", "/schemas/types").body == ["JSON", "PROTOBUF", "AVRO"]
    assert rest.register("found-value", V1).body == {"id": schema_id}


def test_an_incompatible_schema_is_refused_with_confluents_words(rest: Rest) -> None:
    rest.register("strict", V1)
    found = rest.register("strict", V3)
    assert (found.status, found.code) == (409, 409)
    assert found.message.startswith(
        "Schema being registered is incompatible with an earlier schema for subject "
        "\"strict\", details: [{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:"
    )
    assert found.message.endswith("{compatibility: 'BACKWARD'}]")
    body = {"schema": json.dumps(V3)}
    path = "/compatibility/subjects/strict/versions"
    assert rest("POST", f"{path}/latest", body).body == {"is_compatible": False}
    assert rest("POST", f"{path}/1", {"schema": json.dumps(V2)}).body == {"is_compatible": True}
    verbose = rest("POST", f"{path}?verbose=true", body).body
    assert verbose["is_compatible"] is False
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in verbose["messages"][0]
    assert rest("POST", f"{path}/7", body).code == 40402
    new = "/compatibility/subjects/no-such/versions/latest"
    assert rest("POST", new, body).body == {"is_compatible": True}


@pytest.mark.parametrize(
    ("level", "status"),
    [
        ("NONE", 200),
        ("BACKWARD", 200),
        ("FORWARD", 409),
        ("FULL", 409),
        ("BACKWARD_TRANSITIVE", 409),
        ("FORWARD_TRANSITIVE", 409),
        ("FULL_TRANSITIVE", 409),
    ],
)
def test_all_seven_levels(rest: Rest, level: str, status: int) -> None:
    """int, then int or long, then long: each reads the one before, none the one before that."""
    subject = f"level-{level}"
    rest("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    for schema in ("string", "int"):
        assert rest.register(subject, f'"{schema}"').status == 200
    assert rest("PUT", f"/config/{subject}", {"compatibility": level}).body == {
        "compatibility": level
    }
    assert rest.register(subject, '"long"').status == status


def test_settings_and_modes(rest: Rest) -> None:
    assert rest("GET", "/config").body == {"compatibilityLevel": "BACKWARD"}
    assert rest("GET", "/config/s1").code == 40408
    assert rest("GET", "/config/s1?defaultToGlobal=true").body == {"compatibilityLevel": "BACKWARD"}
    assert rest("PUT", "/config/s1", {"compatibility": "full"}).body == {"compatibility": "FULL"}
    assert rest("GET", "/config/s1").body == {"compatibilityLevel": "FULL"}
    assert rest("DELETE", "/config/s1").body == {"compatibilityLevel": "FULL"}
    assert rest("DELETE", "/config/s1").code == 40401
    assert rest("PUT", "/config", {"compatibility": "SIDEWAYS"}).code == 42203
    assert rest("PUT", "/config", {}).code == 42203
    assert rest("GET", "/mode").body == {"mode": "READWRITE"}
    assert rest("GET", "/mode/s1").code == 40409
    assert rest("PUT", "/mode/s1", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert rest.register("s1", V1).code == 42205
    assert rest("DELETE", "/mode/s1").body == {"mode": "READONLY"}
    assert rest("PUT", "/mode/s1", {"mode": "SOMETIMES"}).code == 42204
    assert rest.register("s1", V1, id=4711).code == 42205
    assert rest("PUT", "/mode/s2", {"mode": "IMPORT"}).status == 200
    assert rest.register("s2", V1, id=4711, version=3).body == {"id": 4711}
    assert rest("GET", "/subjects/s2/versions").body == [3]


def test_deletes(rest: Rest) -> None:
    rest.register("gone", V1)
    rest.register("gone", V2)
    assert rest("DELETE", "/subjects/gone/versions/1?permanent=true").code == 40407
    assert rest("DELETE", "/subjects/gone/versions/1").body == 1
    assert rest("DELETE", "/subjects/gone/versions/1").code == 40406
    assert rest("GET", "/subjects/gone/versions/1").code == 40402
    assert rest("GET", "/subjects/gone/versions/1?deleted=true").status == 200
    assert rest("DELETE", "/subjects/gone/versions/1?permanent=true").body == 1
    assert rest("DELETE", "/subjects/gone?permanent=true").code == 40405
    assert rest("DELETE", "/subjects/gone").body == [2]
    assert rest("DELETE", "/subjects/gone").code == 40404
    assert "gone" not in rest("GET", "/subjects").body
    assert "gone" in rest("GET", "/subjects?deleted=true").body
    assert rest("GET", "/subjects?deletedOnly=true").body == ["gone"]
    assert rest("DELETE", "/subjects/gone?permanent=true").body == [2]
    assert rest("DELETE", "/subjects/gone").code == 40401
    assert "gone" not in rest("GET", "/subjects?deleted=true").body


def test_references(rest: Rest) -> None:
    part = {"type": "record", "name": "Part", "namespace": "n", "fields": []}
    rest.register("part", part)
    whole = {"type": "record", "name": "Whole", "fields": [{"name": "p", "type": "n.Part"}]}
    references = [{"name": "n.Part", "subject": "part", "version": 1}]
    assert rest.register("whole", whole).code == 42201
    schema_id = rest.register("whole", whole, references=references).body["id"]
    found = rest("GET", f"/schemas/ids/{schema_id}").body
    assert found["references"] == references
    assert rest("GET", "/subjects/part/versions/1/referencedby").body == [schema_id]
    refused = rest("DELETE", "/subjects/part")
    assert refused.code == 42206
    assert refused.message == (
        "One or more references exist to the schema "
        "{magic=1,keytype=SCHEMA,subject=part,version=1}."
    )
    missing = [{"name": "n.Part", "subject": "no-such", "version": 1}]
    assert rest.register("whole", whole, references=missing).code == 42201


def test_normalization(rest: Rest) -> None:
    text = '{"type":"object","properties":{"b":{},"a":{}}}'
    other = '{"properties":{"a":{},"b":{}},"type":"object"}'
    first = rest(
        "POST", "/subjects/norm/versions?normalize=true", {"schema": text, "schemaType": "JSON"}
    )
    again = rest(
        "POST", "/subjects/norm/versions?normalize=true", {"schema": other, "schemaType": "JSON"}
    )
    assert first.body == again.body
    assert rest("GET", "/subjects/norm/versions/1").body["schema"] == other


def test_contexts_by_subject_and_by_path(rest: Rest) -> None:
    assert rest.register(":.c1:s", V1).body == {"id": 1}
    assert rest("GET", "/contexts").body == [".", ".c1"]
    assert rest("GET", "/contexts/.c1/subjects").body == [":.c1:s"]
    assert rest("GET", "/contexts/.c1/subjects/s/versions").body == [1]
    assert rest("GET", "/contexts/.c1/schemas/ids/1").body["schema"]
    assert rest("GET", "/schemas/ids/1?subject=:.c1:").body["schema"]
    assert rest("GET", "/subjects?subjectPrefix=:.c1:").body == [":.c1:s"]
    assert rest("GET", "/contexts/.c2/schemas/ids/1").code == 40403


def test_protobuf_in_both_forms(rest: Rest) -> None:
    text = 'syntax = "proto3"; message P { int32 x = 1; }'
    schema_id = rest.register("proto", text, schemaType="PROTOBUF").body["id"]
    serialized = rest("GET", f"/schemas/ids/{schema_id}?format=serialized").body
    assert serialized["schemaType"] == "PROTOBUF"
    assert base64.b64decode(serialized["schema"])
    again = rest.register("proto", serialized["schema"], schemaType="PROTOBUF")
    assert again.body == {"id": schema_id}


def test_pages(rest: Rest) -> None:
    for number in range(5):
        rest.register(f"page-{number}", V1)
    path = "/subjects?subjectPrefix=page-&offset=1&limit=2"
    assert rest("GET", path).body == ["page-1", "page-2"]


def test_users_and_grants(broker: Broker, tmp_path: Path) -> None:
    from ottla.registry.security import hash_password

    users = tmp_path / "users"
    users.write_text(
        f"admin {hash_password('a')}\n"
        f"bob {hash_password('b')} read:open-* write:bobs-*  # a comment\n"
    )

    def basic(name: str, password: str) -> dict[str, str]:
        return {
            "Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()
        }

    options = ("--alone", "--topic", "_schemas_users", "--users", str(users))
    with RegistryProcess(broker.bootstrap_servers, *options) as registry:
        nobody = registry.rest()
        admin = Rest(registry.url, basic("admin", "a"))
        bob = Rest(registry.url, basic("bob", "b"))
        refused = nobody("GET", "/subjects")
        assert (refused.status, refused.code) == (401, 401)
        assert refused.headers["www-authenticate"].startswith("Basic")
        assert Rest(registry.url, basic("bob", "x"))("GET", "/subjects").status == 401
        assert Rest(registry.url, basic("eve", "b"))("GET", "/subjects").status == 401
        secret = admin.register("secret", V1).body["id"]
        admin.register("open-1", V2)
        assert bob("GET", "/subjects").body == ["open-1"]
        assert bob("GET", "/subjects/open-1/versions").body == [1]
        assert bob("GET", "/subjects/secret/versions").code == 40301
        assert bob("GET", f"/schemas/ids/{secret}").code == 40301
        assert bob.register("open-1", V1).code == 40301
        assert bob.register("bobs-1", V1).status == 200
        assert bob("PUT", "/config", {"compatibility": "NONE"}).code == 40301


def test_the_registry_says_what_it_is(rest: Rest) -> None:
    assert rest("GET", "/").body == {}
    assert rest("GET", "/v1/metadata/version").body["version"]
    with urllib.request.urlopen(
        urllib.request.Request(rest.url + "/subjects", headers={"Accept": "application/json"})
    ) as reply:
        assert reply.headers["content-type"] == "application/json"
