"""docs/http-api.md section 6.9: questions about topics in SQL."""

from __future__ import annotations

import io
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from tests.support.http_api import Api, Json


@pytest.fixture(scope="module")
def filled(api: Api) -> str:
    """A topic of two partitions to which no test adds: 20 records in one, 30 in the other."""
    topic = api.topic(partition_count=2)
    for partition, count in enumerate((20, 30)):
        records = [
            {"key": f"k{n}", "value": f'{{"n": {n}}}', "timestamp": 1_000 + n, "headers": {"h": str(n)}}
            for n in range(count)
        ]
        path = f"/v1/topics/{topic}/partitions/{partition}/records"
        assert api.http.post(path, json={"records": records}).status_code == 200
    return topic


def asked(api: Api, sql: str, **bounds: Any) -> Json:
    answer = api.http.post("/v1/sql", json={"sql": sql, **bounds})
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_a_topic_is_a_table(api: Api, filled: str) -> None:
    """Rows are lists in the order of the columns; the answer says what was read."""
    found = asked(
        api, f"""select partition, "offset", key, (value->>'n')::int as n, headers from "{filled}" where n = 25"""
    )
    assert found == {
        "columns": [
            {"name": "partition", "type": "INTEGER"},
            {"name": "offset", "type": "BIGINT"},
            {"name": "key", "type": "VARCHAR"},
            {"name": "n", "type": "INTEGER"},
            {"name": "headers", "type": 'STRUCT("key" VARCHAR, "value" BLOB)[]'},
        ],
        "rows": [[1, 25, "k25", 25, [{"key": "h", "value": "25"}]]],
        "more": False,
        "topics": [
            {
                "topic": filled,
                "records": 50,
                "bytes": found["topics"][0]["bytes"],
                "whole": True,
                "partitions": [
                    {"partition": 0, "offset": 0, "next_offset": 20},
                    {"partition": 1, "offset": 0, "next_offset": 30},
                ],
            }
        ],
    }


def test_the_newest_are_read(api: Api, filled: str) -> None:
    """``max_records`` of a topic, ``timestamp`` as a fetch has it."""
    count = f"select count(*), min((value->>'n')::int) from \"{filled}\""
    for bounds, rows, offsets in (
        ({"max_records": 50}, [[50, 0]], [0, 0]),
        ({"max_records": 10}, [[10, 15]], [15, 25]),
        ({"timestamp": 1_025}, [[5, 25]], [20, 25]),
        ({"timestamp": 1_010, "max_records": 4}, [[4, 18]], [18, 28]),
    ):
        found = asked(api, count, **bounds)
        assert found["rows"] == rows
        assert [span["offset"] for span in found["topics"][0]["partitions"]] == offsets
        assert found["topics"][0]["whole"] == (offsets == [0, 0])


def test_several_topics(api: Api, filled: str) -> None:
    """One of them twice, and one without records, which is a table, too."""
    empty = api.topic()
    found = asked(
        api, f'select (select count(*) from "{empty}"), count(*) from "{filled}" a join "{filled}" b using (value)'
    )
    assert found["rows"] == [[0, 20 * 2 + 50]]
    assert {topic["topic"]: topic["records"] for topic in found["topics"]} == {empty: 0, filled: 50}


def test_what_is_no_question_about_a_topic_is_refused(api: Api, filled: str) -> None:
    """400, and the part of the body is named."""
    for sql in (
        "select 1",
        f"select * from \"{filled}\", read_csv('/etc/passwd')",
        f'select value::int from "{filled}"',
    ):
        problem = api.refused(api.http.post("/v1/sql", json={"sql": sql}), 400, "INVALID_REQUEST")
        assert [fault["where"] for fault in problem["errors"]] == ["/sql"]


def test_bounds_have_ranges(api: Api, filled: str) -> None:
    """And the statement a length."""
    sql = f'select 1 from "{filled}"'
    for wrong in (
        {"max_records": 0},
        {"max_records": 50_001},
        {"timestamp": -1},
        {"topics": [filled]},
        {"sql": " " * 20_001},
    ):
        api.refused(api.http.post("/v1/sql", json={"sql": sql} | wrong), 400, "INVALID_REQUEST")
    api.refused(api.http.post("/v1/sql", json={"sql": sql}, headers={"accept": "text/csv"}), 406, "NOT_ACCEPTABLE")


def test_a_topic_has_to_be_there(api: Api) -> None:
    """Nothing else can be named as a table."""
    for name in ("not-there", "/etc/passwd", "duckdb_settings"):
        answer = api.http.post("/v1/sql", json={"sql": f'select * from "{name}"'})
        assert answer.status_code in (403, 404), answer.text
        assert answer.json()["error_code"] in ("UNKNOWN_TOPIC", "UNAUTHORIZED")


def test_rows_as_a_parquet_file(api: Api, filled: str) -> None:
    """With their own types, and more of them than JSON has; what was left out is told, and what does not fit is refused."""
    headers = {"accept": "application/vnd.apache.parquet"}

    def file(sql: str, status: int = 200) -> httpx.Response:
        answer = api.http.post("/v1/sql", json={"sql": sql}, headers=headers)
        assert answer.status_code == status
        return answer

    answer = file(f"""select partition, "offset", 1.25::decimal(9, 2) as amount from "{filled}" order by 1, 2""")
    assert answer.headers["content-type"] == headers["accept"]
    assert answer.headers["tidelog-more"] == "false"
    table = pq.read_table(io.BytesIO(answer.content))
    assert (table.num_rows, str(table.schema.field("amount").type)) == (50, "decimal128(9, 2)")
    assert table["offset"].to_pylist() == [*range(20), *range(30)]
    many = file(f"""select 1 as one from "{filled}" a, "{filled}" b, range(30)""")
    assert many.headers["tidelog-more"] == "true"
    assert pq.read_table(io.BytesIO(many.content)).num_rows == 50_000
    names = 'concat(a.partition, a."offset", b.partition, b."offset", r.range)'
    large = f"""select sha256({names}) as x from "{filled}" a, "{filled}" b, range(20) r"""
    assert "fewer rows" in file(large, 400).json()["detail"]
