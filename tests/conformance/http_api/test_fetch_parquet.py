"""docs/http-api.md section 6.3: a fetch that is answered as a Parquet file has what the same fetch has as lines of JSON."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.http_api import Api

PARQUET = "application/vnd.apache.parquet"
COLUMNS = ["partition", "offset", "timestamp", "key", "value", "headers"]


@pytest.fixture(scope="module")
def filled(api: Api) -> str:
    """A topic to which no test adds: records of every kind in two commits, then ten of 900 KiB."""
    topic = api.topic()
    records: list[dict[str, Any]] = [
        {"value": f"v{n}", "key": f"k{n % 3}", "timestamp": 1_000 + n, "headers": {"n": str(n)}} for n in range(100)
    ]
    odd: list[dict[str, Any]] = [
        {"value_base64": "/w==", "key_base64": "/w=="},
        {"value": None, "key": "k0"},
        {"value": "", "headers": [{"key": "a", "value": None}, {"key": "a", "value_base64": "/w=="}]},
    ]
    large = [{"value": f"{n}" * 900_000} for n in range(10)]
    for sent in (records, odd, large[:5], large[5:]):
        assert api.http.post(f"/v1/topics/{topic}/partitions/0/records", json={"records": sent}).status_code == 200
    return topic


def fetched(api: Api, topic: str, accept: str, **query: Any) -> httpx.Response:
    path = f"/v1/topics/{topic}/partitions/0/records"
    answer = api.http.get(path, params=query, headers={"accept": accept})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == accept
    return answer


def of_bytes(member: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in member:
        return base64.b64decode(member[f"{name}_base64"])
    return None if member[name] is None else str(member[name]).encode()


def rows_of(lines: str) -> list[dict[str, Any]]:
    """As pyarrow has them."""
    return [
        {
            "partition": record["partition"],
            "offset": record["offset"],
            "timestamp": record["timestamp"],
            "key": of_bytes(record, "key"),
            "value": of_bytes(record, "value"),
            "headers": [{"key": header["key"], "value": of_bytes(header, "value")} for header in record["headers"]],
        }
        for record in map(json.loads, lines.splitlines())
    ]


@pytest.mark.parametrize(
    "query",
    [
        {"offset": 0, "max_records": 103},
        {"offset": 10, "max_records": 7},
        {"offset": 0, "header": "n:7"},
        {"offset": 0, "key": "k0", "max_records": 100},
        {"timestamp": 1_050, "max_records": 5},
        {"offset": 0, "max_records": 1_000, "max_bytes": 64 << 20},
        {"offset": 100, "max_records": 20, "max_bytes": 3 << 20},
        {"offset": 0, "key": "none"},
        {"offset": "latest"},
    ],
    ids=str,
)
def test_a_file_has_what_the_lines_have(api: Api, filled: str, query: dict[str, Any]) -> None:
    """Record for record, with the same positions; without a record it has the columns."""
    lines = fetched(api, filled, "application/x-ndjson", **query)
    file = fetched(api, filled, PARQUET, **query)
    table = pq.read_table(io.BytesIO(file.content))
    assert table.column_names == COLUMNS
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    times = table["timestamp"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_pylist()
    found = [
        row | {"timestamp": ms, "headers": row["headers"] or []}
        for row, ms in zip(table.to_pylist(), times, strict=True)
    ]
    assert found == rows_of(lines.text)
    for name in ("tidelog-next-offset", "tidelog-high-watermark", "tidelog-log-start-offset"):
        assert file.headers[name] == lines.headers[name]


def test_a_large_file_comes_in_row_groups(api: Api, filled: str) -> None:
    """It is made piece by piece, so its row groups are small."""
    file = pq.ParquetFile(io.BytesIO(fetched(api, filled, PARQUET, offset=0, max_bytes=64 << 20).content))
    assert file.metadata.num_rows == 113
    assert file.metadata.num_row_groups > 8
    assert max(file.metadata.row_group(n).total_byte_size for n in range(file.metadata.num_row_groups)) < 2 << 20


def test_what_is_refused_is_a_problem(api: Api, filled: str) -> None:
    """As with every other format; several partitions are no file."""
    path = f"/v1/topics/{filled}/partitions/0/records"
    api.refused(api.http.get(path, params={"offset": 10_000}, headers={"accept": PARQUET}), 416, "OFFSET_OUT_OF_RANGE")
    body = {"partitions": [{"topic": filled, "partition": 0, "offset": 0}]}
    api.refused(api.http.post("/v1/fetch", json=body, headers={"accept": PARQUET}), 406, "NOT_ACCEPTABLE")
