"""The registry's API answers as Confluent's documentation says: members, statuses, codes."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.support.registry import JSON, Registry, record

INT, LONG = '"int"', '"long"'


def test_a_schema_is_registered_once_and_found_by_all_its_names(registry: Registry, name: str) -> None:
    """The same schema in another layout has the same id, in every subject; versions count for each subject."""
    first = registry.register(name, record("A", a="int"))
    again = registry.call(
        "POST", f"/subjects/{name}/versions", {"schema": json.dumps(json.loads(record("A", a="int")), indent=4)}
    )
    assert (again["id"], again["version"]) == (first, 1)
    assert registry.register(f"{name}-other", record("A", a="int")) == first
    second = registry.register(name, record("A", a="int", b=("int", 0)))
    assert second > first
    assert registry.call("GET", f"/subjects/{name}/versions") == [1, 2]
    shown = registry.call("GET", f"/subjects/{name}/versions/1")
    assert (shown["subject"], shown["version"], shown["id"]) == (name, 1, first)
    assert json.loads(shown["schema"]) == json.loads(record("A", a="int"))
    assert "schemaType" not in shown, "as Confluent's registry leaves it out of Avro schemas"
    for latest in ("latest", "-1"):
        assert registry.call("GET", f"/subjects/{name}/versions/{latest}")["version"] == 2
    assert registry.call("GET", f"/subjects/{name}/versions/2/schema")["name"] == "A"
    assert json.loads(registry.call("GET", f"/schemas/ids/{first}")["schema"])["name"] == "A"
    assert registry.call("GET", f"/schemas/ids/{first}", fetchMaxId="true")["maxId"] >= second
    assert registry.call("GET", f"/schemas/ids/{first}/schema")["name"] == "A"
    assert registry.call("GET", f"/schemas/ids/{first}/subjects") == [name, f"{name}-other"]
    assert registry.call("GET", f"/schemas/ids/{first}/versions") == [
        {"subject": name, "version": 1},
        {"subject": f"{name}-other", "version": 1},
    ]
    assert registry.call("GET", f"/schemas/ids/{first}/versions", subject=name) == [{"subject": name, "version": 1}]


def test_a_schema_is_looked_up_by_its_text(registry: Registry, name: str) -> None:
    """40401 where there is no such subject, 40403 where it has no such schema."""
    body = {"schema": record("A", a="int")}
    registry.refused(40401, "POST", f"/subjects/{name}", body)
    schema_id = registry.register(name, record("A", a="int"))
    found = registry.call("POST", f"/subjects/{name}", body)
    assert (found["subject"], found["version"], found["id"]) == (name, 1, schema_id)
    registry.refused(40403, "POST", f"/subjects/{name}", {"schema": INT})


def test_what_is_not_there(registry: Registry, name: str) -> None:
    """Each kind has a code of its own."""
    registry.register(name, INT)
    registry.refused(40401, "GET", f"/subjects/no-{name}/versions")
    registry.refused(40401, "GET", f"/subjects/no-{name}/versions/1")
    registry.refused(40401, "DELETE", f"/subjects/no-{name}")
    registry.refused(40401, "DELETE", f"/subjects/no-{name}/versions/1")
    registry.refused(40402, "GET", f"/subjects/{name}/versions/2")
    registry.refused(40402, "DELETE", f"/subjects/{name}/versions/2")
    for version in ("0", "-2", "2147483648", "first", "1.0"):
        registry.refused(42202, "GET", f"/subjects/{name}/versions/{version}")
        registry.refused(42202, "DELETE", f"/subjects/{name}/versions/{version}")
    for schema_id in ("0", "2000000000"):
        for more in ("", "/schema", "/subjects", "/versions"):
            registry.refused(40403, "GET", f"/schemas/ids/{schema_id}{more}")
    registry.refused(40408, "GET", f"/config/{name}")
    registry.refused(40409, "GET", f"/mode/{name}")
    registry.refused(40401, "DELETE", f"/config/{name}")
    registry.refused(40401, "DELETE", f"/mode/{name}")
    registry.refused(404, "GET", "/nothing")
    registry.refused(405, "PUT", "/subjects")


@pytest.mark.parametrize(
    "body", [{}, {"schema": ""}, {"schema": None}, {"schema": "{"}, {"schema": '{"type":"nothing"}'}]
)
def test_what_is_no_schema(registry: Registry, name: str, body: dict[str, object]) -> None:
    """42201, wherever a schema is given."""
    for path in (f"/subjects/{name}/versions", f"/subjects/{name}", f"/compatibility/subjects/{name}/versions"):
        said = registry.refused(42201, "POST", path, body)
        assert said.startswith("Invalid schema: ") == bool(body.get("schema")), "as Confluent's clients look for it"
    registry.refused(42201, "POST", f"/subjects/{name}/versions", {"schema": INT, "schemaType": "XML"})


def test_bodies_that_can_not_be_read(registry: Registry, name: str) -> None:
    """400 for what is no JSON, 422 for another type of member, 415 for another media type."""
    path = f"/subjects/{name}/versions"
    deep = b'{"metadata":{"a":' + 5_000 * b"["
    for data, status in ((b"{", 400), (b"\xff", 400), (deep, 400), (b"[]", 422), (b'{"schema":1}', 422)):
        answer = registry.http.post(path, content=data, headers={"content-type": JSON})
        assert (answer.status_code, answer.json()["error_code"]) == (status, status), data[:20]
    answer = registry.http.post(path, content=b"{}", headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["error_code"]) == (415, 415)
    kinds = (JSON, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream", None)
    for kind in (*kinds, f"{JSON}; charset=ISO-8859-1"):
        headers = {} if kind is None else {"content-type": kind}
        assert registry.http.post(path, content=json.dumps({"schema": INT}), headers=headers).status_code == 200, kind


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, JSON),
        ("*/*", JSON),
        (f"{JSON}, application/vnd.schemaregistry+json; qs=0.9, application/json; qs=0.5", JSON),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("application/json", "application/json"),
    ],
)
def test_media_types(registry: Registry, accept: str | None, kind: str) -> None:
    """The answer has the type that the client likes best."""
    answer = registry.http.get("/subjects", headers={} if accept is None else {"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert registry.http.get("/subjects", headers={"accept": "text/html"}).status_code == 406


def test_an_incompatible_schema_is_refused_with_the_reasons(registry: Registry, name: str) -> None:
    """409; the same is told before by the calls that compare."""
    registry.register(name, record("A", a="int"))
    new = {"schema": record("A", a="int", b="int")}
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in registry.refused(409, "POST", f"/subjects/{name}/versions", new)
    path = f"/compatibility/subjects/{name}/versions"
    for one in (path, f"{path}/latest", f"{path}/1"):
        assert registry.call("POST", one, new) == {"is_compatible": False}
        told = registry.call("POST", one, new, verbose="true")
        assert not told["is_compatible"]
        assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in each for each in told["messages"])
        assert registry.call("POST", one, {"schema": record("A", a="long")}) == {"is_compatible": True}
    registry.refused(40402, "POST", f"{path}/2", new)
    registry.refused(40402, "POST", f"/compatibility/subjects/no-{name}/versions/1", new)
    assert registry.call("POST", f"/compatibility/subjects/no-{name}/versions/latest", new) == {"is_compatible": True}
    assert registry.call("POST", f"/compatibility/subjects/no-{name}/versions", new) == {"is_compatible": True}
    registry.call("PUT", f"/config/{name}", {"compatibility": "NONE"})
    assert registry.call("POST", path, new) == {"is_compatible": True}
    registry.register(name, new["schema"])


def test_levels(registry: Registry, name: str) -> None:
    """A level that is not transitive looks at the latest version only."""
    registry.call("PUT", f"/config/{name}", {"compatibility": "NONE"})
    first, second = record("A", a="int"), record("A", a=("int", 0), b=("int", 0))
    registry.register(name, first)
    registry.register(name, second)
    third = record("A", c=("int", 0), b="int")
    for level, allowed in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False), ("backward", True), ("FULL", True)):
        registry.call("PUT", f"/config/{name}", {"compatibility": level})
        found = registry.call("POST", f"/compatibility/subjects/{name}/versions", {"schema": third})
        assert found == {"is_compatible": allowed}, level


def test_configurations(registry: Registry, name: str) -> None:
    """A subject's own holds before that of all."""
    assert registry.call("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert registry.call("GET", f"/config/{name}", defaultToGlobal="true") == {"compatibilityLevel": "BACKWARD"}
    put = registry.call("PUT", f"/config/{name}", {"compatibility": "FULL", "normalize": True, "unknown": 1})
    assert put == {"compatibility": "FULL", "normalize": True}
    assert registry.call("GET", f"/config/{name}") == {"compatibilityLevel": "FULL", "normalize": True}
    registry.refused(42203, "PUT", f"/config/{name}", {"compatibility": "SOME"})
    assert registry.call("DELETE", f"/config/{name}") == {"compatibilityLevel": "FULL", "normalize": True}
    registry.refused(40408, "GET", f"/config/{name}")


def test_modes(registry: Registry, name: str) -> None:
    """READONLY forbids changes; IMPORT takes ids and versions from the client."""
    assert registry.call("GET", "/mode") == {"mode": "READWRITE"}
    assert registry.call("PUT", f"/mode/{name}", {"mode": "READONLY"}) == {"mode": "READONLY"}
    registry.refused(42205, "POST", f"/subjects/{name}/versions", {"schema": INT})
    registry.refused(42205, "PUT", f"/config/{name}", {"compatibility": "FULL"})
    registry.refused(42204, "PUT", f"/mode/{name}", {"mode": "SOME"})
    assert registry.call("DELETE", f"/mode/{name}") == {"mode": "READONLY"}
    registry.refused(42205, "POST", f"/subjects/{name}/versions", {"schema": INT, "id": 77})
    registry.call("PUT", f"/mode/{name}", {"mode": "IMPORT"})
    registry.refused(42205, "POST", f"/subjects/{name}/versions", {"schema": INT})
    base = 1_000_000 + int(name[1:6], 16)
    text = record(f"T{base}", a="int")
    for _ in range(2):
        assert registry.register(name, text, id=base, version=3) == base
    registry.refused(42205, "POST", f"/subjects/{name}/versions", {"schema": LONG, "id": base, "version": 4})
    assert registry.call("GET", f"/subjects/{name}/versions") == [3]
    registry.call("PUT", f"/mode/{name}", {"mode": "READWRITE"})
    registry.refused(42205, "PUT", f"/mode/{name}", {"mode": "IMPORT"})
    registry.call("PUT", f"/mode/{name}", {"mode": "IMPORT"}, force="true")
    registry.call("DELETE", f"/mode/{name}")
    assert registry.register(name, record(f"T{base}", a="long")) > base, "ids go on above those that were imported"
    assert registry.call("GET", f"/subjects/{name}/versions") == [3, 4]


def test_deleting(registry: Registry, name: str) -> None:
    """First marked, then gone. What is marked can still be read by its id; what is gone had an id that none has again."""
    ids = [registry.register(name, text) for text in (record(f"{name}a", a="int"), record(f"{name}a", a="long"))]
    registry.call("PUT", f"/config/{name}", {"compatibility": "NONE"})
    registry.refused(40407, "DELETE", f"/subjects/{name}/versions/1", permanent="true")
    assert registry.call("DELETE", f"/subjects/{name}/versions/1") == 1
    registry.refused(40406, "DELETE", f"/subjects/{name}/versions/1")
    assert registry.call("GET", f"/subjects/{name}/versions") == [2]
    assert registry.call("GET", f"/subjects/{name}/versions", deleted="true") == [1, 2]
    assert registry.call("GET", f"/subjects/{name}/versions", deletedOnly="true") == [1]
    registry.refused(40402, "GET", f"/subjects/{name}/versions/1")
    assert registry.call("GET", f"/subjects/{name}/versions/1", deleted="true")["deleted"] is True
    assert registry.call("GET", f"/schemas/ids/{ids[0]}")
    registry.refused(40405, "DELETE", f"/subjects/{name}", permanent="true")
    assert registry.call("DELETE", f"/subjects/{name}") == [2]
    registry.refused(40404, "DELETE", f"/subjects/{name}")
    registry.refused(40408, "GET", f"/config/{name}")
    assert name not in registry.call("GET", "/subjects")
    assert name in registry.call("GET", "/subjects", deleted="true")
    assert name in registry.call("GET", "/subjects", deletedOnly="true")
    assert registry.register(name, record(f"{name}a", a="long")) == ids[1], "it was not gone"
    assert registry.call("GET", f"/subjects/{name}/versions") == [3]
    registry.call("DELETE", f"/subjects/{name}")
    assert registry.call("DELETE", f"/subjects/{name}", permanent="true") == [1, 2, 3]
    registry.refused(40403, "GET", f"/schemas/ids/{ids[1]}")
    assert registry.register(name, record(f"{name}a", a="long")) > max(ids)
    assert registry.call("GET", f"/subjects/{name}/versions") == [1]


def test_references(registry: Registry, name: str) -> None:
    """A schema that others refer to stays until they are deleted."""
    money = registry.register(f"{name}-money", record(f"Money{name}", amount="long"))
    references = [{"name": f"Money{name}", "subject": f"{name}-money", "version": 1}]
    order = record("Order", price=f"Money{name}")
    registry.refused(42201, "POST", f"/subjects/{name}/versions", {"schema": order})
    missing = [references[0] | {"version": 2}]
    registry.refused(42201, "POST", f"/subjects/{name}/versions", {"schema": order, "references": missing})
    made = registry.register(name, order, references=references)
    assert registry.call("GET", f"/schemas/ids/{made}")["references"] == references
    assert registry.call("GET", f"/subjects/{name}-money/versions/1/referencedby") == [made]
    registry.refused(42206, "DELETE", f"/subjects/{name}-money/versions/1")
    registry.refused(42206, "DELETE", f"/subjects/{name}-money")
    registry.call("DELETE", f"/subjects/{name}")
    assert registry.call("DELETE", f"/subjects/{name}-money") == [1]
    assert registry.call("GET", f"/schemas/ids/{money}")


@pytest.mark.parametrize("normalize", ["false", "true"])
def test_a_schema_with_its_references_put_in_is_the_same_version(registry: Registry, name: str, normalize: str) -> None:
    """Avro's serializers know of no references: they look up and register what they have, which has all types in it."""
    money = {"type": "record", "name": f"Money{name}", "fields": [{"name": "amount", "type": "long"}]}
    registry.register(f"{name}-money", json.dumps(money))
    references = [{"name": f"Money{name}", "subject": f"{name}-money", "version": 1}]
    fields = {"price": f"Money{name}", "fee": f"Money{name}"}
    first = registry.register(name, record("Order", **fields), references=references)
    whole = {"schema": record("Order", **fields | {"price": money})}
    found = registry.call("POST", f"/subjects/{name}", whole, normalize=normalize)
    assert (found["id"], found["version"], found["references"]) == (first, 1, references)
    path = f"/subjects/{name}/versions"
    assert registry.call("POST", path, whole, normalize=normalize)["id"] == first
    registry.call("PUT", f"/config/{name}", {"compatibility": "NONE"})
    # Another type by the same name, and other metadata, are another schema.
    other = {"schema": record("Order", **fields | {"price": money | {"doc": "of a day"}})}
    for body in (other, whole | {"metadata": {"properties": {"a": "b"}}}):
        registry.refused(40403, "POST", f"/subjects/{name}", body)
    assert registry.call("POST", path, other)["version"] == 2
    registry.call("DELETE", f"{path}/1")
    registry.refused(40403, "POST", f"/subjects/{name}", whole)
    assert registry.call("POST", f"/subjects/{name}", whole, deleted="true")["version"] == 1


def test_contexts(registry: Registry, name: str) -> None:
    """A context has subjects and settings of its own, and an id is looked for where the subject is."""
    subject, text = f":.{name}:a", record(f"X{name}", a="int")
    schema_id = registry.register(subject, text)
    assert registry.call("GET", f"/subjects/{quote(subject, '')}/versions/1")["subject"] == subject
    assert f".{name}" in registry.call("GET", "/contexts")
    registry.refused(40403, "GET", f"/schemas/ids/{schema_id}")
    for asked in (subject, f":.{name}:", "a"):
        assert registry.call("GET", f"/schemas/ids/{schema_id}", subject=asked)["schema"]
    assert registry.call("GET", "/subjects", subjectPrefix=f":.{name}:") == [subject]
    assert subject in registry.call("GET", "/subjects", subjectPrefix=":*:a")
    assert subject not in registry.call("GET", "/subjects", subjectPrefix="")
    registry.call("PUT", f"/config/:.{name}:", {"compatibility": "NONE"})
    assert registry.register(subject, LONG)
    assert registry.register(f":.:{name}", text) != schema_id
    assert registry.call("GET", f"/subjects/{name}/versions") == [1], "the default context has two spellings"


@pytest.mark.parametrize("character", ["/", "%", "%2F", "?", "#", " ", ":", "..", "é", "\U0001f30a", "+", "&"])
def test_any_character_may_be_in_a_subject(registry: Registry, name: str, character: str) -> None:
    """Percent-encoded, as clients send it."""
    subject = f"{name}{character}value"
    schema_id = registry.register(subject, INT)
    path = f"/subjects/{quote(subject, safe='')}"
    assert registry.call("GET", f"{path}/versions/latest")["subject"] == subject
    assert subject in registry.call("GET", "/subjects", subjectPrefix=name)
    assert subject in registry.call("GET", f"/schemas/ids/{schema_id}/subjects")
    assert registry.call("DELETE", path) == [1]


@pytest.mark.parametrize("subject", ["__GLOBAL", "__EMPTY", "a\nb", "a\x00", "x" * 1_001, ":.ctx:"])
def test_names_that_no_subject_can_have(registry: Registry, subject: str) -> None:
    """42208, before anything is registered."""
    registry.refused(42208, "POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": INT})


def test_lists_have_pages(registry: Registry, name: str) -> None:
    """Of subjects, versions and schemas."""
    for number in range(5):
        registry.register(f"{name}-{number}", INT)
    registry.register(f"{name}-0", LONG)
    prefix = {"subjectPrefix": f"{name}-"}
    assert registry.call("GET", "/subjects", **prefix, offset=1, limit=2) == [f"{name}-1", f"{name}-2"]
    assert registry.call("GET", f"/subjects/{name}-0/versions", offset=1) == [2]
    schemas = registry.call("GET", "/schemas", **prefix)
    assert [(one["subject"], one["version"]) for one in schemas][:3] == [
        (f"{name}-0", 1),
        (f"{name}-0", 2),
        (f"{name}-1", 1),
    ]
    latest = registry.call("GET", "/schemas", **prefix, latestOnly="true", limit=2)
    assert [(one["subject"], one["version"]) for one in latest] == [(f"{name}-0", 2), (f"{name}-1", 1)]


def test_metadata_and_rules_are_kept(registry: Registry, name: str) -> None:
    """They are returned as they were, and make the schema another one."""
    metadata = {"properties": {"owner": "é", "a": "b"}, "tags": {"x": ["PII"]}}
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "expr": "1 < 2"}]}
    plain = registry.register(name, INT)
    made = registry.register(name, INT, metadata=metadata, ruleSet=rules)
    assert made != plain
    shown = registry.call("GET", f"/subjects/{name}/versions/2")
    assert (shown["metadata"], shown["ruleSet"]) == (metadata, rules)
    same = {
        "schema": INT,
        "metadata": {"tags": metadata["tags"], "properties": metadata["properties"]},
        "ruleSet": rules,
    }
    assert registry.call("POST", f"/subjects/{name}", same)["version"] == 2
    latest = f"/subjects/{name}/metadata"
    assert registry.call("GET", latest, key="a", value="b")["version"] == 2
    assert registry.call("GET", latest)["version"] == 2
    registry.refused(40403, "GET", latest, key="a", value="c")
    registry.refused(40401, "GET", f"/subjects/no-{name}/metadata", key="a", value="b")


def test_versions_are_compared_within_their_group(registry: Registry, name: str) -> None:
    """``compatibilityGroup`` names a property of the metadata: another value of it begins anew."""
    registry.call("PUT", f"/config/{name}", {"compatibilityGroup": "major"})
    registry.register(name, INT, metadata={"properties": {"major": "1"}})
    text = '"string"'
    registry.refused(
        409, "POST", f"/subjects/{name}/versions", {"schema": text, "metadata": {"properties": {"major": "1"}}}
    )
    registry.register(name, text, metadata={"properties": {"major": "2"}})


def test_a_slash_at_the_end_means_nothing(registry: Registry, name: str) -> None:
    """Confluent's client for Java compares with all versions so. An encoded one is part of a subject."""
    registry.register(name, INT)
    registry.register(f"{name}/", INT)
    assert registry.call("POST", f"/compatibility/subjects/{name}/versions/", {"schema": INT}) == {
        "is_compatible": True
    }
    assert f"{name}/" in registry.call("GET", "/subjects/")
    assert registry.call("GET", f"/contexts/:.:/subjects/{name}%2F/versions/") == [1]
    assert registry.call("GET", "/") == {}


def test_what_the_registry_says_of_itself(registry: Registry) -> None:
    """Clients ask these first."""
    assert registry.call("GET", "/") == {}
    assert registry.call("GET", "") == {}
    assert sorted(registry.call("GET", "/schemas/types")) == ["AVRO", "JSON", "PROTOBUF"]
    assert "id" in registry.call("GET", "/v1/metadata/id")
    assert "version" in registry.call("GET", "/v1/metadata/version")
