"""What clients take for granted: contexts in the path, guids, the latest version of a reference, files that nobody registers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from google.type import color_pb2, datetime_pb2, money_pb2, postal_address_pb2

from log_format.schemas.parsing_protobuf import parse_protobuf
from tests.support.registry import Registry, record

INT = '"int"'


@pytest.fixture
def client(registry: Registry, name: str) -> Iterator[SchemaRegistryClient]:
    """A client whose address names a context."""
    with SchemaRegistryClient({"url": f"{str(registry.http.base_url).rstrip('/')}/contexts/:.{name}:"}) as made:
        yield made


def test_a_client_uses_a_context_by_its_address(client: SchemaRegistryClient, registry: Registry, name: str) -> None:
    """What it registers, lists, reads by id, compares and configures is of the context; the default one has nothing of it."""
    schema = Schema(record("A", a="int"), "AVRO")
    schema_id = client.register_schema("orders", schema)
    qualified = f":.{name}:orders"
    assert client.get_subjects() == [qualified]
    assert client.get_latest_version("orders").schema_id == schema_id
    assert client.lookup_schema("orders", schema).version == 1
    assert client.get_subjects_by_schema_id(schema_id) == [qualified]
    assert client.test_compatibility("orders", schema)
    client.set_compatibility("orders", "FULL")
    assert registry.call("GET", f"/config/{qualified}") == {"compatibilityLevel": "FULL"}
    client.set_compatibility(level="NONE")
    assert registry.call("GET", f"/config/:.{name}:") == {"compatibilityLevel": "NONE"}
    assert "orders" not in registry.call("GET", "/subjects")
    registry.refused(40403, "GET", f"/schemas/ids/{schema_id}")
    assert registry.call("GET", f"/schemas/ids/{schema_id}", subject=qualified)["schema"]


@pytest.mark.parametrize("spelling", ["{name}", ".{name}", ":.{name}:"])
def test_spellings_of_a_context_in_the_path(registry: Registry, name: str, spelling: str) -> None:
    """A slash in a subject stays one, a qualified subject stays of its own context, and so does the default one's."""
    base = f"/contexts/{spelling.format(name=name)}"
    subject = quote("a/b", safe="")
    registry.call("POST", f"{base}/subjects/{subject}/versions", {"schema": INT})
    assert registry.call("GET", f"{base}/subjects/{subject}/versions") == [1]
    assert registry.call("GET", f"{base}/subjects") == [f":.{name}:a/b"]
    assert registry.call("GET", f"{base}/subjects", subjectPrefix="b") == []
    assert [one["subject"] for one in registry.call("GET", f"{base}/schemas")] == [f":.{name}:a/b"]
    other = f":.x{name}:c"
    registry.call("POST", f"{base}/subjects/{other}/versions", {"schema": INT})
    assert registry.call("GET", f"/subjects/{other}/versions") == [1]
    registry.call("POST", f"/contexts/:.:/subjects/{name}/versions", {"schema": INT})
    assert name in registry.call("GET", "/subjects")
    registry.refused(400, "GET", "/contexts/a:b/subjects")


def test_a_context_without_schemas_is_deleted_with_its_settings(registry: Registry, name: str) -> None:
    """42211 while there are some, deleted ones included."""
    subject, context = f":.{name}:a", f":.{name}:"
    registry.register(subject, INT)
    registry.call("PUT", f"/config/{context}", {"compatibility": "NONE"})
    registry.call("PUT", f"/mode/{context}", {"mode": "READWRITE"})
    assert f".{name}" in registry.call("GET", "/contexts", contextPrefix=f".{name}")
    assert registry.call("GET", "/contexts", contextPrefix=f".{name}", offset=1) == []
    registry.refused(42211, "DELETE", f"/contexts/{context}")
    registry.call("DELETE", f"/subjects/{subject}")
    registry.refused(42211, "DELETE", f"/contexts/.{name}")
    registry.call("DELETE", f"/subjects/{subject}", permanent="true")
    answer = registry.asked("DELETE", f"/contexts/{context}")
    assert (answer.status_code, answer.content) == (204, b"")
    registry.refused(40408, "GET", f"/config/{context}")
    registry.refused(40409, "GET", f"/mode/{context}")
    registry.refused(42211, "DELETE", "/contexts/:.:")


def test_a_schema_is_found_by_its_guid(registry: Registry, name: str) -> None:
    """It is the same in each context and each answer, and another for another schema."""
    text = record(f"G{name}", a="int")
    first = registry.register(name, text)
    second = registry.register(f":.{name}:b", text)
    shown = registry.call("GET", f"/subjects/{name}/versions/1")
    guid = shown["guid"]
    assert registry.call("GET", f"/schemas/ids/{first}")["guid"] == guid
    assert registry.call("POST", f"/subjects/{name}", {"schema": text})["guid"] == guid
    assert registry.call("POST", f"/subjects/{name}/versions", {"schema": text})["guid"] == guid
    assert registry.call("GET", f"/subjects/:.{name}:b/versions/1")["guid"] == guid
    assert registry.call("GET", f"/schemas/guids/{guid}") == {"guid": guid, "schema": shown["schema"]}
    assert registry.call("GET", f"/schemas/guids/{guid}/ids") == [
        {"context": ".", "id": first},
        {"context": f".{name}", "id": second},
    ]
    assert registry.call("GET", f"/schemas/ids/{registry.register(f'{name}-2', INT)}")["guid"] != guid
    for unknown in ("00000000-0000-0000-0000-000000000000", "x"):
        registry.refused(40403, "GET", f"/schemas/guids/{unknown}")
        registry.refused(40403, "GET", f"/schemas/guids/{unknown}/ids")


def test_values_whose_guid_is_in_a_header(registry: Registry, name: str) -> None:
    """As Confluent's serializers send them on demand; another client reads them."""
    headers: list[tuple[str, str | bytes | None]] = []
    context = SerializationContext(name, MessageField.VALUE, headers)
    with SchemaRegistryClient({"url": str(registry.http.base_url)}) as writer:
        conf = {"schema.id.serializer": header_schema_id_serializer}
        data = AvroSerializer(writer, record("H", a="string"), conf=conf)({"a": "a longer text"}, context)
    assert [key for key, _ in headers] == ["__value_schema_id"]
    with SchemaRegistryClient({"url": str(registry.http.base_url)}) as reader:
        assert AvroDeserializer(reader)(data, context) == {"a": "a longer text"}


def test_a_reference_to_the_latest_version(registry: Registry, name: str) -> None:
    """Version -1 is the newest at the moment of the call; what is registered has its number."""
    registry.call("PUT", f"/config/{name}", {"compatibility": "NONE"})
    registry.register(name, record("R", a="int"))
    registry.register(name, record("R", b="int"))
    reference: dict[str, Any] = {"name": "R", "subject": name, "version": -1}
    body = {"schema": record("By", r="R"), "references": [reference]}
    registry.call("POST", f"/subjects/{name}-by/versions", body)
    shown = registry.call("GET", f"/subjects/{name}-by/versions/1")
    assert shown["references"] == [reference | {"version": 2}]
    assert registry.call("POST", f"/subjects/{name}-by", body)["version"] == 1
    missing = body | {"references": [reference | {"subject": f"no-{name}"}]}
    assert "No schema reference" in registry.refused(42201, "POST", f"/subjects/{name}-by/versions", missing)


def test_a_mode_that_overrides(registry: Registry, name: str) -> None:
    """READONLY_OVERRIDE of a context holds whatever its subjects have for themselves; taken away, theirs holds again."""
    subject, context = f":.{name}:a", f":.{name}:"
    registry.register(subject, INT)
    registry.call("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    registry.call("PUT", f"/mode/{context}", {"mode": "READONLY_OVERRIDE"})
    assert registry.call("GET", f"/mode/{subject}", defaultToGlobal="true") == {"mode": "READONLY_OVERRIDE"}
    body = {"schema": '"long"'}
    registry.refused(42205, "POST", f"/subjects/{subject}/versions", body)
    registry.refused(42205, "DELETE", f"/subjects/{subject}")
    registry.call("DELETE", f"/mode/{context}")
    registry.call("POST", f"/subjects/{subject}/versions", body)


def test_files_that_clients_do_not_register(registry: Registry, name: str) -> None:
    """Confluent's clients skip google/type and confluent/type as known, as they do google/protobuf."""
    text = """
    syntax = "proto3";
    import "google/type/money.proto";
    import "google/type/datetime.proto";
    import "confluent/type/variant.proto";
    message Priced { google.type.Money price = 1; google.type.DateTime at = 2; confluent.type.Variant any = 3; }
    """
    registry.register(name, text, schemaType="PROTOBUF")
    assert "google/type/money.proto" in registry.call("GET", f"/subjects/{name}/versions/1")["schema"]


@pytest.mark.parametrize("module", [color_pb2, datetime_pb2, money_pb2, postal_address_pb2])
def test_known_files_are_those_of_google(module: Any) -> None:
    """Message for message and field for field, without options and comments."""
    wanted = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(wanted)
    parsed = parse_protobuf(f'syntax = "proto3"; import "{wanted.name}"; message A {{ int32 a = 1; }}', ())
    found = next(one for one in parsed.files if one.name == wanted.name)
    for one in (wanted, found):
        one.ClearField("options")
    assert found.SerializeToString(deterministic=True) == wanted.SerializeToString(deterministic=True)


def test_an_id_that_is_no_number(registry: Registry) -> None:
    """404, where an unknown number is 40403."""
    for text in ("x", "1.5", "9999999999"):
        registry.refused(404, "GET", f"/schemas/ids/{text}")
    registry.refused(40403, "GET", "/schemas/ids/-1")
    assert json.loads(registry.asked("GET", "/v1/metadata/deployment").text) == {"attributes": []}
