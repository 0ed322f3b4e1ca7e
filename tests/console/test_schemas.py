"""The pages of schemas, and what the other pages show of a typed topic: its columns, and values as their schemas mean them."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from playwright.sync_api import expect

from tests.support.accessibility import overflow
from tests.support.browser import Visits
from tests.support.console import Console, Tab, done, escaped, row, settled
from tests.support.gateway_process import GatewayProcess
from tests.support.registry import record
from tests.support.secured import Secured

ORDER = record("Order", id="long", amount="double")
WITH_NOTE = record("Order", id="long", amount="double", note=("string", ""))
EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "All",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "ratio", "type": "float"},
        {"name": "is_paid", "type": "boolean"},
        {"name": "again", "type": ["null", "shop.All"]},
    ],
}
VALUE = {
    "id": 2**60 + 1, "money": Decimal("-3.50"), "at": 1_769_817_600_000_001, "day": 20484, "kind": "B", "code": b"ab",
    "tags": ["x", "</script>"], "counts": {"n": 2}, "note": "ä", "raw": b"\xff", "ratio": 0.5, "is_paid": True, "again": None,
}  # fmt: skip


def framed(schema_id: int, schema: str, value: Any) -> dict[str, str]:
    """A record whose value is as Confluent's Avro serializer writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return {"value_base64": base64.b64encode(b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()).decode()}


def register(gateway: GatewayProcess, subject: str, schema: str, **members: Any) -> int:
    """The id of a new version."""
    answer = gateway.http.post(f"/registry/subjects/{subject}/versions", json={"schema": schema, **members})
    assert answer.status_code == 200, answer.text
    found: int = answer.json()["id"]
    return found


@pytest.fixture(scope="module", autouse=True)
def data(gateway: GatewayProcess) -> None:
    """Two versions of a subject, and a topic that has it."""
    register(gateway, "orders-value", ORDER)
    register(gateway, "orders-value", WITH_NOTE)
    config = {"value.schema": "orders-value", "data.on.error": "mark", "flush.ms": 0}
    assert gateway.http.post("/v1/topics", json={"name": "orders", "config": config}).status_code == 201
    records = {"records": [{"value": {"id": 1, "amount": 2.5}}, {"value": {"id": "one"}}]}
    assert gateway.http.post("/v1/topics/orders/records", json=records).status_code == 200


def test_subjects_are_listed_and_one_is_registered(tab: Tab, gateway: GatewayProcess) -> None:
    """With type and newest version; a search narrows the list; a refusal stands beside what was typed."""
    tab.visits.expect(422)
    page = tab.open("/schemas")
    assert row(page, "orders-value")[:3] == ["orders-value", "AVRO", "2"]
    page.get_by_role("button", name="Register schema").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Subject").fill("fresh-value")
    dialog.get_by_label("Schema", exact=True).fill('{"type": "nothing"}')
    dialog.get_by_role("button", name="Register").click()
    expect(dialog.get_by_role("alert")).to_contain_text("42201")
    dialog.get_by_label("Schema", exact=True).fill('{"type": "object"}')
    dialog.get_by_label("Type").select_option("JSON")
    dialog.get_by_role("button", name="Register").click()
    done(page, "Subject fresh-value has the schema, id ")
    expect(page.get_by_role("heading", level=1)).to_have_text("fresh-value")
    assert gateway.http.get("/registry/subjects/fresh-value/versions/1").json()["schemaType"] == "JSON"
    page = tab.open("/schemas")
    page.get_by_role("searchbox").fill("fresh")
    expect(page.get_by_role("rowheader")).to_have_text(["fresh-value"])


def test_a_subject_has_versions_changes_and_topics(tab: Tab) -> None:
    """The text of each version, what it changed, and which topics have the schema."""
    page = tab.open("/schemas/orders-value")
    expect(page.get_by_label("Schema", exact=True)).to_contain_text('"name": "note"')
    page.get_by_role("button", name="Changes").click()
    changes = page.get_by_label("Changes", exact=True)
    expect(changes.locator(".ok").filter(has_text='"name": "note"')).to_have_count(1)
    expect(changes.locator(".bad").filter(has_text="note")).to_have_count(0)
    page.get_by_role("button", name="1", exact=True).click()
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible()
    expect(page.get_by_label("Schema", exact=True)).not_to_contain_text("note")
    assert row(page, "orders") == ["orders", "data"]


def test_a_new_version_is_checked_and_registered(console: Console, gateway: GatewayProcess) -> None:
    """The check says why not, and changes nothing; the level can be changed; what fits is registered."""
    console.visits.expect(409)
    register(gateway, "grown-value", ORDER)
    page = console.open("/schemas/grown-value")
    text = page.get_by_label("Schema of the new version")
    text.fill(record("Order", id="string", amount="double"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("It may not be registered")).to_be_visible()
    expect(page.get_by_role("status").get_by_text("TYPE_MISMATCH")).to_be_visible()
    page.get_by_role("button", name="Register", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("409")
    text.fill(WITH_NOTE)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("It may be registered.")).to_be_visible()
    assert gateway.http.get("/registry/subjects/grown-value/versions").json() == [1]
    page.get_by_role("button", name="Register", exact=True).click()
    done(page, "Subject grown-value has the schema")
    expect(page.get_by_role("heading", name="Version 2")).to_be_visible()
    page.get_by_label("Level").select_option("FULL")
    page.get_by_role("button", name="Save").click()
    done(page, "Compatibility changed.")
    assert gateway.http.get("/registry/config/grown-value").json() == {"compatibilityLevel": "FULL"}
    page.get_by_role("button", name="Delete…").click()
    page.get_by_label("Name of the subject").fill("grown-value")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    done(page, "Subject grown-value is deleted.")
    assert gateway.http.get("/registry/subjects").json().count("grown-value") == 0


def test_a_typed_topic_is_made_and_shows_its_columns(console: Console, gateway: GatewayProcess) -> None:
    """The schema and what becomes of other records are chosen where the topic is made; its page has the columns with types."""
    page = console.open("/topics")
    assert "orders-value" in row(page, "orders")
    page.get_by_role("button", name="Create topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("made")
    dialog.get_by_label("Typed").check()
    dialog.get_by_label("Schema of values").fill("orders-value")
    dialog.get_by_label("A record that does not fit").select_option("mark")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made")
    settled(page)
    config = gateway.http.get("/v1/topics/made").json()["config"]
    assert (config["value.schema"], config["data.on.error"]) == ("orders-value", "mark")
    assert row(page, "data.amount") == ["data.amount", "double"]
    assert row(page, "data_error") == ["data_error", "string"]
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("data.on.error").select_option("reject")
    page.get_by_role("button", name="Save").click()
    done(page, "Settings changed.")
    assert gateway.http.get("/v1/topics/made").json()["config"]["data.on.error"] == "reject"
    console.go(page, "/topics/orders?tab=storage")
    table = page.get_by_role("region", name="Commits")
    expect(table.get_by_role("columnheader", name="Schema errors")).to_be_visible()


def test_values_are_shown_as_their_schemas_mean_them(tab: Tab, gateway: GatewayProcess) -> None:
    """Every type of Avro, long integers with all their digits, in the list and in the record; JSON's without the header."""
    schema = json.dumps(EVERYTHING)
    schema_id = register(gateway, "everything", schema)
    json_id = register(gateway, "documents", '{"type": "object"}', schemaType="JSON")
    document = base64.b64encode(b"\0" + json_id.to_bytes(4, "big") + b'{"n": 9007199254740993}').decode()
    gateway.topic("framed")
    body = {"records": [framed(schema_id, schema, VALUE), {"value_base64": document}]}
    assert gateway.http.post("/v1/topics/framed/records", json=body).status_code == 200
    page = tab.open("/topics/framed/messages")
    expect(page.get_by_text('{"id":1152921504606846977,"money":"-3.50"')).to_be_visible()
    expect(page.get_by_text('{"n": 9007199254740993}')).to_be_visible()
    page.get_by_role("button", name="0:0").click()
    shown = json.loads(page.get_by_label("Value", exact=True).inner_text())
    assert shown == {
        "id": 1152921504606846977, "money": "-3.50", "at": "2026-01-31T00:00:00.000001Z", "day": "2026-01-31", "kind": "B",
        "code": "YWI=", "tags": ["x", "</script>"], "counts": {"n": 2}, "note": "ä", "raw": "/w==", "ratio": 0.5,
        "is_paid": True, "again": None,
    }  # fmt: skip
    expect(page.get_by_text(f"Schema {schema_id} (AVRO)")).to_be_visible()
    page.get_by_role("button", name="Hex").click()
    expect(page.get_by_label("Value", exact=True)).to_contain_text("00000000  00 00")


PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Order {
  message Line { string sku = 1; sint64 count = 2; }
  enum Kind { NONE = 0; SALE = 1; }
  int64 id = 1; uint64 big = 2; double amount = 3; bool is_paid = 4; Kind kind = 5; repeated Line lines = 6;
  map<string, int32> counts = 7; repeated int32 packed = 8; bytes raw = 9; google.protobuf.Timestamp at = 10;
  fixed64 wide = 11; float ratio = 12; oneof way { string road = 13; string rail = 14; }
  sfixed32 less = 15; repeated float many = 16;
}
"""


def proto_order(gateway: GatewayProcess, schema_id: int) -> bytes:
    """An order of ``PROTO`` with every member, as Google's library writes it, behind the index of its message."""
    answer = gateway.http.get(f"/registry/schemas/ids/{schema_id}", params={"format": "serialized"})
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(answer.json()["schema"]))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(
        id=-(2**60) - 1, big=2**64 - 1, amount=2.5, is_paid=True, kind=1, packed=[1, -2, 300], raw=b"\xff", wide=2**53 + 1,
        ratio=0.5, rail="ä", less=-7, counts={"n": 2}, lines=[{"sku": "</script>", "count": -3}, {}], many=[0.25, 1.5],
        at={"seconds": 1_769_817_600, "nanos": 500_000_000},
    )  # fmt: skip
    written: bytes = made.SerializeToString()
    return b"\x02\x02" + written


def test_values_of_protobuf_are_shown_by_their_descriptor(tab: Tab, gateway: GatewayProcess) -> None:
    """Every kind of member that is set, by its declared name; whole numbers keep their digits; damaged bytes stay bytes."""
    schema_id = register(gateway, "proto-value", PROTO, schemaType="PROTOBUF")
    header = b"\0" + schema_id.to_bytes(4, "big")
    good = header + proto_order(gateway, schema_id)
    values = [good, header + b"\0\x08\x05", good[:-1], header + b"\x02\x12\x08\x01"]
    gateway.topic("proto")
    records = {"records": [{"value_base64": base64.b64encode(value).decode()} for value in values]}
    assert gateway.http.post("/v1/topics/proto/records", json=records).status_code == 200
    page = tab.open("/topics/proto/messages")
    expect(page.get_by_text('{"id":-1152921504606846977,"big":18446744073709551615,"amount":2.5')).to_be_visible()
    expect(page.get_by_role("cell", name='{"n":5}')).to_be_visible()
    for offset, why in ((2, "ends too early"), (3, "names no message")):
        page.get_by_role("button", name=f"0:{offset}").click()
        expect(page.get_by_role("dialog").get_by_text(why)).to_be_visible()
        page.keyboard.press("Escape")
    page.get_by_role("button", name="0:0").click()
    assert json.loads(page.get_by_label("Value", exact=True).inner_text()) == {
        "id": -1152921504606846977, "big": 18446744073709551615, "amount": 2.5, "is_paid": True, "kind": "SALE",
        "lines": [{"sku": "</script>", "count": -3}, {}], "counts": {"n": 2}, "packed": [1, -2, 300], "raw": "/w==",
        "at": "2026-01-31T00:00:00.500000000Z", "wide": 9007199254740993, "ratio": 0.5, "rail": "ä", "less": -7,
        "many": [0.25, 1.5],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (lambda known: b"\0" + known.to_bytes(4, "big") + b"\x02", "ends too early"),
        (lambda known: b"\0" + known.to_bytes(4, "big") + b"\x02" + bytes(9), "1 bytes follow it"),
        (lambda known: b"\0" + known.to_bytes(4, "big") + b"\xff" * 12, "a number is too long"),
        (lambda _: b"\0\0\x0f\xff\xff\1", "not found"),
    ],
)
def test_what_is_not_of_its_schema_is_shown_as_it_is(tab: Tab, gateway: GatewayProcess, value: Any, why: str) -> None:
    """The bytes, with the reason."""
    tab.visits.expect(404)
    known = gateway.http.get("/registry/subjects/orders-value/versions/1").json()["id"]
    name = f"wrong-{why.split(maxsplit=1)[0]}-{len(value(known))}"
    gateway.topic(name)
    body = {"records": [{"value_base64": base64.b64encode(value(known)).decode()}]}
    assert gateway.http.post(f"/v1/topics/{name}/records", json=body).status_code == 200
    page = tab.open(f"/topics/{name}/messages")
    page.get_by_role("button", name="0:0").click()
    expect(page.get_by_role("dialog").get_by_text(why)).to_be_visible()
    expect(page.get_by_role("button", name="Decoded")).to_have_count(0)


def test_blocks_without_end_do_not_stop_the_page(tab: Tab, gateway: GatewayProcess) -> None:
    """A value of a few bytes may say that it has billions of items that take none."""
    schema_id = register(gateway, "endless", '{"type": "array", "items": "null"}')
    gateway.topic("endless")
    count = b"\xfe\xff\xff\xff\xff\xff\xff\x7f"
    value = base64.b64encode(b"\0" + schema_id.to_bytes(4, "big") + count + b"\0").decode()
    assert (
        gateway.http.post("/v1/topics/endless/records", json={"records": [{"value_base64": value}]}).status_code == 200
    )
    page = tab.open("/topics/endless/messages")
    page.get_by_role("button", name="0:0").click()
    expect(page.get_by_role("dialog").get_by_text("too many items")).to_be_visible()


def test_a_subject_is_changed_by_those_who_may(visits: Visits, secured: Secured) -> None:
    """Who may read it only is offered a check, and no change."""
    visits.expect(403, 404)
    secured.admin.http.post("/registry/subjects/theirs-value/versions", json={"schema": ORDER})
    principal, api = secured.user()
    secured.allow(principal, "Read", "subject", "theirs-value")
    page = Console(visits, secured.url, api.token).open("/schemas/theirs-value")
    expect(page.get_by_role("button", name="Check")).to_be_enabled()
    expect(page.get_by_role("button", name="Register", exact=True)).to_have_count(0)
    expect(page.get_by_role("button", name="Delete…")).to_have_count(0)
    expect(page.get_by_role("button", name="Save")).to_be_disabled()


@pytest.mark.parametrize(
    "subject", ["a/b %2F?#&", "<img src=x onerror=alert(1)>", ":.shop:orders", "\u202egpj.exe", "s" * 200]
)
def test_odd_subjects_and_texts_are_shown_as_they_are(tab: Tab, gateway: GatewayProcess, subject: str) -> None:
    """Each has a page, which a link of the list leads to; nothing of a schema runs, and nothing is wider than the screen."""
    markup = '{"title": "<script>alert(1)</script></pre><img src=x onerror=alert(1)>", "type": "object"}'
    body = {"schema": markup, "schemaType": "JSON"}
    answer = gateway.http.post(f"/registry/subjects/{quote(subject, '')}/versions", json=body)
    assert answer.status_code == 200, answer.text
    page = tab.open("/schemas", width=320)
    page.get_by_role("link", name=escaped(subject), exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(escaped(subject))
    expect(page.get_by_label("Schema", exact=True)).to_contain_text("<script>alert(1)</script>")
    assert page.locator("main :is(script, img, iframe, [onerror])").count() == 0
    assert overflow(page) == []
