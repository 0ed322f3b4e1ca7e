"""Scans that the gateway plans: PyIceberg reads by them what it reads by manifests, and deltalake at the same version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.exceptions import NoSuchTableError

from log_format.iceberg.data_file import snapshot_id
from tests.support.iceberg_reader import assert_equal_at, checksum, iceberg_catalog, version_of
from tests.support.maintained import maintain
from tests.support.registry import record
from tests.support.typed_gateway import TypedGateway, typed_gateway

TOPIC: Final = "orders"
TABLE: Final = ("topics", TOPIC)
ORDER: Final = record("Order", id="long", price="double", customer=(["null", "string"], None))
FILTERS: Final = {
    "partition = 1": 4,
    "partition = 1 and offset >= 3": 1,
    "offset < 1": 2,
    "not (offset >= 1)": 2,
    "data.id in (3, 5)": 2,
    "data.id not in (3, 5)": 6,
    "data.customer = 'c2'": 1,
    "data.customer is null": 4,
    "data.customer is not null and data.id > 4": 1,
    "data.customer != 'c2'": 7,
    "data.customer like 'c%'": 4,
    "data.price >= 2.5": 2,
    "timestamp < '2020-01-01T00:00:00+00:00'": 0,
    "timestamp >= '2020-01-01T00:00:00+00:00'": 8,
    "key is null": 8,
    "data.id = 99": 0,
}
"""Filters, and how many of the eight files of one record may match."""


class Planned:
    """A gateway on a directory with a table of eight files, and catalogs that plan there and at the client."""

    def __init__(self, typed: TypedGateway) -> None:
        self.typed = typed
        self.by_plan: RestCatalog = iceberg_catalog(typed.gateway.url, **{"scan-planning-mode": "server"})
        self.by_manifests: RestCatalog = iceberg_catalog(typed.gateway.url)
        self.path = f"{typed.gateway.store}/topics/{TOPIC}"
        self.url = f"/iceberg/v1/namespaces/topics/tables/{TOPIC}"
        typed.registry.register(f"{TOPIC}-value", ORDER)
        typed.create(TOPIC, value_schema=f"{TOPIC}-value", partition_count=2)
        for number in range(8):
            given = {"customer": f"c{number}"} if number % 2 == 0 else {}
            body = {"records": [{"value": {"id": number, "price": number / 2 - 0.5, **given}}]}
            path = f"/v1/topics/{TOPIC}/partitions/{number % 2}/records"
            answer = typed.http.post(path, json=body)
            assert answer.is_success, answer.text

    def post(self, path: str, body: Any) -> Any:
        """Return the answer to a POST below the table's path."""
        return self.typed.http.post(f"{self.url}/{path}", json=body)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    with typed_gateway(tmp_path_factory.mktemp("planned")) as typed:
        yield Planned(typed)


@pytest.mark.parametrize("row_filter", FILTERS)
def test_a_planned_scan_has_the_rows_of_the_filter(planned: Planned, row_filter: str) -> None:
    """As a scan by manifests, from no more files than may match."""
    wanted = planned.by_manifests.load_table(TABLE).scan(row_filter=row_filter).to_arrow()
    scan = planned.by_plan.load_table(TABLE).scan(row_filter=row_filter)
    assert checksum(scan.to_arrow()) == checksum(wanted)
    assert len(list(scan.plan_files())) == FILTERS[row_filter]


def test_everything_is_planned(planned: Planned) -> None:
    """Also at an earlier version, and what was acknowledged just before."""
    table = planned.by_plan.load_table(TABLE)
    version = version_of(table)
    assert assert_equal_at(table, planned.path, version).num_rows >= 8
    earlier = planned.post("plan", {"snapshot-id": version - 4}).json()["file-scan-tasks"]
    assert sum(task["data-file"]["record-count"] for task in earlier) == 4
    assert table.scan(selected_fields=("offset", "data.id")).to_arrow().num_rows >= 8
    assert table.scan(row_filter="DATA.ID = 3", case_sensitive=False).to_arrow().num_rows == 1


def test_a_topic_at_a_journal_is_planned_complete(planned: Planned) -> None:
    """It is drained for a plan, too, and merged files of its table are planned once."""
    planned.typed.create("quiet", commit_mode="shared")
    for number in range(3):
        answer = planned.typed.http.post("/v1/topics/quiet/records", json={"records": [{"value": number}]})
        assert answer.is_success
        scan = planned.by_plan.load_table(("topics", "quiet")).scan()
        assert scan.to_arrow().num_rows == number + 1
    maintain(Path(planned.typed.gateway.store))
    assert planned.by_plan.load_table(("topics", "quiet")).scan().to_arrow().num_rows == 3


def test_residuals_are_what_is_left(planned: Planned) -> None:
    """Comparisons that hold for all rows of a file are left out; one about nulls of a column without counts stays."""
    both = {
        "type": "and",
        "left": {"type": "eq", "term": "partition", "value": 1},
        "right": {"type": "gt", "term": "data.id", "value": 4},
    }
    (first, second) = planned.post("plan", {"filter": both}).json()["file-scan-tasks"]
    assert first["residual-filter"] is second["residual-filter"] is True
    unknown = {"type": "is-null", "term": "key"}
    found = planned.post("plan", {"filter": both | {"right": unknown}}).json()["file-scan-tasks"]
    assert [task["residual-filter"] for task in found] == [unknown] * 4


def test_newer_forms_of_filters_mean_the_same(planned: Planned) -> None:
    """References by name and id, literals with types, on either side; what is a function is left to the client."""
    number = planned.by_plan.load_table(TABLE).schema().find_field("data.id").field_id
    literal = {"type": "literal", "value": 5, "data-type": "long"}
    forms = [
        {"type": "lt", "term": "data.id", "value": 5},
        {"type": "lt", "left": {"type": "reference", "name": "data.id"}, "right": literal},
        {"type": "gt", "left": literal, "right": {"type": "reference", "id": number}},
        {"type": "not", "child": {"type": "gt-eq", "term": {"type": "reference", "id": number}, "value": 5}},
        {"type": "in", "child": {"type": "reference", "id": number}, "values": list(range(5))},
    ]
    for form in forms:
        assert len(planned.post("plan", {"filter": form}).json()["file-scan-tasks"]) == 5, form
    applied = {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "data.id"}, "value": 1}
    found = planned.post("plan", {"filter": applied}).json()["file-scan-tasks"]
    assert [task["residual-filter"] for task in found] == [applied] * 8
    assert len(planned.post("plan", {"filter": {"type": "false"}}).json()["file-scan-tasks"]) == 0


def test_statistics_come_for_the_fields_that_are_named(planned: Planned) -> None:
    """Bounds in Iceberg's JSON, by id; none without being asked for."""
    schema = planned.by_plan.load_table(TABLE).schema()
    ids = [schema.find_field(name).field_id for name in ("offset", "timestamp", "data.customer")]
    asked = {
        "stats-fields": ["offset", "timestamp", "data.customer"],
        "filter": {"type": "eq", "term": "data.id", "value": 2},
    }
    (task,) = planned.post("plan", asked).json()["file-scan-tasks"]
    lower = dict(
        zip(task["data-file"]["lower-bounds"]["keys"], task["data-file"]["lower-bounds"]["values"], strict=True)
    )
    assert lower[ids[0]] == 1
    assert lower[ids[1]].endswith("+00:00")
    assert lower[ids[2]] == "c2"
    assert "lower-bounds" not in planned.post("plan", {}).json()["file-scan-tasks"][0]["data-file"]


def test_a_plan_is_told_again_and_given_up(planned: Planned) -> None:
    """By its id, for the version that it was made for; unknown ids and tasks are 404 in Iceberg's form."""
    made = planned.post("plan", {"filter": {"type": "gt", "term": "data.id", "value": 5}}).json()
    again = planned.typed.http.get(f"{planned.url}/plan/{made['plan-id']}")
    assert again.json() == made
    assert planned.typed.http.delete(f"{planned.url}/plan/{made['plan-id']}").status_code == 204
    unknown = planned.typed.http.get(f"{planned.url}/plan/nothing")
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "NoSuchPlanIdException")
    task = planned.post("tasks", {"plan-task": "nothing"})
    assert (task.status_code, task.json()["error"]["type"]) == (404, "NoSuchPlanTaskException")


@pytest.mark.parametrize(
    "body",
    [
        {"filter": {"type": "eq", "term": "nothing", "value": 1}},
        {"filter": {"type": "eq", "term": "offset"}},
        {"filter": {"type": "between", "term": "offset", "value": 1}},
        {"filter": {"type": "in", "term": "offset"}},
        {"filter": [1]},
        {"select": ["nothing"]},
        {"filter": {"type": "eq", "term": "OFFSET", "value": 1}},
        {"stats-fields": ["nothing"]},
        {"start-snapshot-id": 1, "end-snapshot-id": 2},
        {"snapshot-id": "one"},
        {"snapshot-id": 1 << 40},
    ],
)
def test_what_can_not_be_planned_is_refused(planned: Planned, body: dict[str, Any]) -> None:
    """400 in Iceberg's form, never a plan that leaves something out."""
    answer = planned.post("plan", body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["type"] == "BadRequestException"


def test_the_request_of_pyiceberg_is_read(planned: Planned) -> None:
    """An unknown table is PyIceberg's error; the snapshot of version 0 has an id of its own."""
    with pytest.raises(NoSuchTableError):
        planned.by_plan.plan_scan(("topics", "nothing"), PlanTableScanRequest())
    asked = PlanTableScanRequest.model_validate({"snapshot-id": snapshot_id(0)})
    assert planned.by_plan.plan_scan(TABLE, asked) == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"method":"GET","uri":"http://h/a","plan-task":"x","y":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"method":"GET","uri":"\xff","plan-task":"\xff","select":["\xff"]}',
    ],
    ids=["deep", "not UTF-8"],
)
@pytest.mark.parametrize("path", ["plan", "tasks", "sign"])
def test_a_body_that_no_parser_reads_is_refused(planned: Planned, path: str, body: bytes) -> None:
    """400 in Iceberg's form, not a failure of the gateway: one that nests too deeply, and one that is not UTF-8."""
    answer = planned.typed.http.post(f"{planned.url}/{path}", content=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "BadRequestException"), answer.text
