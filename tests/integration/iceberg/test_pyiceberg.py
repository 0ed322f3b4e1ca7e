"""PyIceberg reads topics by the gateway's catalog: exactly the records of the Delta version that the snapshot names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.ids import random_id
from log_format.stores import open_store
from log_format.topic.changes import DeleteRecords
from tests.support.iceberg_reader import assert_equal_at, iceberg_catalog, version_of
from tests.support.maintained import maintain
from tests.support.registry import record
from tests.support.typed_gateway import TypedGateway, typed_gateway

NULLABLE: Final = (["null", "string"], None)
ORDER: Final = record("Order", id="long", price="double", customer=NULLABLE)
GROWN: Final = record("Order", id="long", price="double", customer=NULLABLE, note=NULLABLE)


class Lake:
    """A gateway on a directory, and its catalog."""

    def __init__(self, typed: TypedGateway) -> None:
        self.typed = typed
        self.catalog: RestCatalog = iceberg_catalog(typed.gateway.url)

    def load(self, topic: str) -> Table:
        table: Table = self.catalog.load_table(("topics", topic))
        return table

    def equal(self, topic: str, version: int | None = None) -> pa.Table:
        """Load the table, and compare its newest snapshot, or that of a version, with deltalake's."""
        table = self.load(topic)
        at = version_of(table) if version is None else version
        return assert_equal_at(table, f"{self.typed.gateway.store}/topics/{topic}", at)

    def requests(self) -> Counter[tuple[str, str]]:
        """Return the gateway's requests to the store so far, by kind and object, without what it does by the clock."""
        lines = self.typed.http.get("/metrics").text
        found = re.findall(r'^tidelog_store_requests_total\{kind="(\w+)",of="(\w+)"\} (\S+)$', lines, re.MULTILINE)
        return Counter({(kind, of): int(float(count)) for kind, of, count in found if of not in {"heartbeat", "other"}})

    def send(self, topic: str, *values: Any, partition: int = 0) -> None:
        body = {"records": [{"key": f"k-{value}", "value": value, "headers": {"h": "v"}} for value in values]}
        answer = self.typed.http.post(f"/v1/topics/{topic}/partitions/{partition}/records", json=body)
        assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with typed_gateway(tmp_path_factory.mktemp("lake")) as typed:
        yield Lake(typed)


def test_what_was_acknowledged_is_in_the_table(lake: Lake) -> None:
    """At each version; earlier snapshots stay what they were, and the bounds of offsets leave files out."""
    lake.typed.create("flights", partition_count=2)
    assert lake.load("flights").scan().to_arrow().num_rows == 0
    versions = []
    for number in range(4):
        lake.send("flights", number, number + 100, partition=number % 2)
        assert lake.equal("flights").num_rows == 2 * (number + 1)
        versions.append(version_of(lake.load("flights")))
    for number, version in enumerate(versions):
        assert lake.equal("flights", version).num_rows == 2 * (number + 1)
    table = lake.load("flights")
    assert len(list(table.scan(row_filter="partition = 1 and offset >= 2").plan_files())) == 1
    assert table.scan(row_filter="offset >= 2").to_arrow().num_rows == 4
    assert table.sort_order().fields[0].source_id == 1


def test_polars_reads_a_snapshot(lake: Lake) -> None:
    """By its id. polars asks each snapshot for its schema."""
    lake.typed.create("frames")
    versions = []
    for number in range(2):
        lake.send("frames", number)
        versions.append(version_of(lake.load("frames")))
    table = lake.load("frames")
    for number, version in enumerate(versions):
        scan = polars.scan_iceberg(table, snapshot_id=version, reader_override="pyiceberg")
        assert sorted(scan.collect()["offset"].to_list()) == list(range(number + 1))


def test_a_topic_at_a_journal_is_complete(lake: Lake) -> None:
    """Its records are drained before the answer."""
    lake.typed.create("quiet", commit_mode="shared")
    for number in range(3):
        lake.send("quiet", number)
        assert lake.equal("quiet").num_rows == number + 1


def test_typed_columns_have_ids_that_stay(lake: Lake) -> None:
    """A schema that grows; files that lack a column have null; bounds of a member leave files out."""
    lake.typed.registry.register("orders-value", ORDER)
    lake.typed.create("orders", value_schema="orders-value")
    assert lake.typed.produce("orders", *({"id": number, "price": number / 2} for number in range(3))).is_success
    before = lake.load("orders")
    lake.typed.registry.register("orders-value", GROWN)
    more = [{"id": 100 + number, "price": 1.5, "customer": "ann", "note": "x"} for number in range(3)]
    assert lake.typed.produce("orders", *more).is_success
    rows = lake.equal("orders").sort_by("offset")
    assert [row["data"]["id"] for row in rows.to_pylist()] == [0, 1, 2, 100, 101, 102]
    assert [row["data"]["note"] for row in rows.to_pylist()] == [None] * 3 + ["x"] * 3
    after = lake.load("orders")
    for name in ("data.id", "data.price", "data.customer", "value"):
        assert after.schema().find_field(name).field_id == before.schema().find_field(name).field_id
    scan = after.scan(row_filter="data.id >= 100", selected_fields=("data.id",))
    assert len(list(scan.plan_files())) == 1
    assert scan.to_arrow().num_rows == 3
    assert after.scan(row_filter="data.customer = 'ann'").to_arrow().num_rows == 3


def test_merges_and_removals_keep_snapshots_right(lake: Lake) -> None:
    """Maintenance has merged the files of an earlier snapshot, whose rows are as they were; deleted records are gone."""
    lake.typed.create("merged")
    for number in range(8):
        lake.send("merged", number)
    first = version_of(lake.load("merged"))
    maintain(Path(lake.typed.gateway.store))
    lake.send("merged", 8)
    assert lake.equal("merged").num_rows == 9
    assert lake.equal("merged", first).num_rows == 8
    log = TopicLog(open_store(lake.typed.gateway.store), "merged", SystemClock())
    log.refresh()
    Committer(log, new_id=random_id).commit(DeleteRecords(before={0: 8}))
    assert lake.equal("merged").num_rows == 1


def test_a_pin_is_a_tag(lake: Lake) -> None:
    """Its version is read by the pin's name."""
    lake.typed.create("pinned")
    lake.send("pinned", 1, 2)
    made = lake.typed.http.post("/v1/topics/pinned/pins", json={"name": "before"})
    assert made.status_code == 201
    lake.send("pinned", 3)
    table = lake.load("pinned")
    assert table.scan().use_ref("before").to_arrow().num_rows == 2
    assert table.scan().to_arrow().num_rows == 3


def test_a_clone_has_records_at_version_0(lake: Lake) -> None:
    """Whose id is not 0, which PyIceberg takes for none."""
    lake.typed.create("source")
    lake.send("source", 1, 2)
    made = lake.typed.http.post("/v1/topics/source:clone", json={"name": "copy"})
    assert made.is_success, made.text
    assert lake.load("copy").scan().to_arrow().num_rows == 2
    lake.send("copy", 3)
    assert lake.equal("copy", 0).num_rows == 2


def test_deleting_what_was_made_for_iceberg_is_harmless(lake: Lake) -> None:
    """All of it, or some; the next load makes it anew."""
    lake.typed.create("wiped")
    store = open_store(lake.typed.gateway.store)
    for kept_max in (0, 1, 2):
        lake.send("wiped", kept_max)
        lake.load("wiped")
        for info in list(store.list("topics/wiped/_iceberg/"))[kept_max:]:
            store.delete(info.key)
        lake.send("wiped", kept_max)
        assert lake.equal("wiped").num_rows == 2 * (kept_max + 1)


def test_a_catalog_that_nobody_asks_costs_no_request(lake: Lake) -> None:
    """Commits to a table that was once loaded make the requests that they make to one which never was."""
    made = {}
    for topic, loaded in (("unasked", False), ("asked", True)):
        lake.typed.create(topic, commit_mode="own")
        lake.send(topic, 0)
        if loaded:
            assert lake.equal(topic).num_rows == 1
        before = lake.requests()
        for number in range(12):
            lake.send(topic, number)
        made[topic] = lake.requests() - before
    assert made["asked"] == made["unasked"]
    assert made["asked"]["PUT", "commit"] == 12
    before = lake.requests()
    lake.load("asked")
    assert "iceberg" in {of for _, of in lake.requests() - before}, "a load would be seen"


def test_names_and_what_is_not_there(lake: Lake) -> None:
    """Namespaces, lists in pages, existence; writes are refused in Iceberg's own form."""
    for name in ("a.b", "listed"):
        lake.typed.create(name)
    assert lake.catalog.list_namespaces() == [("topics",)]
    assert {("topics", "a.b"), ("topics", "listed")} <= set(lake.catalog.list_tables("topics"))
    assert lake.catalog.table_exists(("topics", "a.b"))
    assert not lake.catalog.table_exists(("topics", "nothing"))
    assert lake.catalog.namespace_exists("topics")
    assert not lake.catalog.namespace_exists("nothing")
    assert lake.catalog.list_namespaces("topics") == []
    with pytest.raises(NoSuchNamespaceError, match=r"Namespace does not exist: nothing$"):
        lake.catalog.list_namespaces("nothing")
    with pytest.raises(NoSuchTableError):
        lake.load("nothing")
    with pytest.raises(NoSuchTableError, match=r"does not exist: topics\.a\..* with dots is one name"):
        lake.catalog.load_table("topics.a.b")
    with pytest.raises(NoSuchNamespaceError):
        lake.catalog.list_tables("nothing")
    pages: list[str] = []
    token: str | None = ""
    while token is not None:
        asked = {"pageSize": "1", "pageToken": token}
        page = lake.typed.http.get("/iceberg/v1/namespaces/topics/tables", params=asked).json()
        assert len(page["identifiers"]) <= 1
        pages += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]
    assert pages == sorted(pages)
    assert {"a.b", "listed"} <= set(pages)


def test_a_table_below_a_table_is_no_table(lake: Lake) -> None:
    """Spark asks so for metadata tables, and goes on only if the table, not the namespace, is unknown."""
    answer = lake.typed.http.get("/iceberg/v1/namespaces/topics%1Fflights/tables/snapshots")
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "NoSuchTableException"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "namespaces"),
        ("DELETE", "namespaces/topics"),
        ("POST", "namespaces/topics/properties"),
        ("POST", "namespaces/topics/tables"),
        ("POST", "namespaces/topics/tables/listed"),
        ("DELETE", "namespaces/topics/tables/listed"),
        ("POST", "namespaces/topics/register"),
        ("POST", "tables/rename"),
        ("POST", "transactions/commit"),
        ("POST", "namespaces/topics/views"),
    ],
)
def test_every_write_is_refused(lake: Lake, method: str, path: str) -> None:
    """406 in Iceberg's form, whatever the body is."""
    answer = lake.typed.http.request(method, f"/iceberg/v1/{path}", json={})
    assert answer.status_code == 406
    error = answer.json()["error"]
    assert error["type"] == "UnsupportedOperationException"
    assert error["code"] == 406
    assert "only reads" in error["message"]
