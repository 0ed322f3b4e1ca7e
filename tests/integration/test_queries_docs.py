"""docs/queries.md, as a user types it in, against offsets that real groups committed: every query and what it finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.gateway_process import running_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = Path(__file__).parents[2] / "docs" / "queries.md"
STORE = "s3://bucket/prefix"


def _blocks(chapter: str) -> list[tuple[str, str]]:
    """Languages and texts of the examples in a chapter, in order."""
    text = re.split(rf"^## {chapter}$", DOCUMENT.read_text(), flags=re.MULTILINE)[1]
    text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    found = re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten records in two partitions; ``billing`` is behind, went back and stands at 1 and 4, ``audit`` has read everything."""
    directory = tmp_path_factory.mktemp("queries")
    with running_gateway(directory / "store", directory / "log") as gateway:
        _history(gateway.http)
    return str(directory / "store")


def _history(http: httpx.Client) -> None:
    def make(records: list[dict[str, Any]]) -> None:
        topic = {"name": "orders", "partition_count": 2, "config": {"flush.ms": 0}}
        assert http.post("/v1/topics", json=topic).status_code == 201
        assert http.post("/v1/topics/orders/records", json={"records": records}).status_code == 200

    def commit(group: str, *offsets: int, **member: Any) -> None:
        listed = [{"topic": "orders", "partition": number, "offset": offset} for number, offset in enumerate(offsets)]
        answer = http.put(f"/v1/groups/{group}/offsets", json={"offsets": listed} | member)
        assert answer.status_code == 200, answer.text

    make([{"value": "old", "partition": 0}] * 9)
    commit("former", 9)
    assert http.delete("/v1/topics/orders").status_code == 204
    make([{"value": str(number), "partition": number % 2} for number in range(10)])
    joined = http.post("/v1/groups/billing/members", json={"topics": ["orders"]}).json()
    member = {"member_id": joined["member_id"], "generation": joined["generation"]}
    commit("billing", 3, 4, **member)
    assert http.delete(f"/v1/groups/billing/members/{joined['member_id']}").status_code == 204
    commit("audit", 5, 5)
    back = {"partitions": [{"topic": "orders", "partition": 0}], "to": {"shift": -2}}
    assert http.post("/v1/groups/billing/offsets:reset", json=back).status_code == 200


def test_every_query_of_spark(spark: SparkSession, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lag by group, the slowest consumer, the replay, and where a group stood; what a deleted topic left counts for nothing."""
    import spark_pipeline

    monkeypatch.setattr(spark_pipeline, "session", lambda _store: spark)
    names: dict[str, Any] = {}
    found = []
    for language, text in _blocks("Spark"):
        if language == "python":
            exec(compile(text.replace(STORE, store), str(DOCUMENT), "exec"), names)
        else:
            assert language == "sql"
            found.append([row.asDict() for row in spark.sql(text).collect()])
    _view, lag, slowest, replays, stood = found
    assert [(row["group"], row["lag"]) for row in lag] == [("billing", 5), ("audit", 0)]
    assert lag[0]["first_unread"] is not None
    assert lag[1]["first_unread"] is None
    assert [(row["group"], row["member"] is None, row["partitions"], row["lag"]) for row in slowest] == [
        ("billing", True, 1, 4),
        ("billing", False, 1, 1),
        ("audit", True, 2, 0),
    ]
    (replay,) = replays
    assert [replay[name] for name in ("group", "partition", "offset_before", "offset", "records", "member")] == [
        "billing",
        0,
        3,
        1,
        2,
        None,
    ]
    assert [(row["partition"], row["offset"]) for row in stood] == [(0, 1), (1, 4)]


def test_every_query_of_pandas(store: str) -> None:
    """The same answers from deltalake and pandas alone."""
    names: dict[str, Any] = {}
    for language, text in _blocks("pandas"):
        assert language == "python"
        exec(compile(text.replace(STORE, store), str(DOCUMENT), "exec"), names)
    assert names["lag"].to_dict() == {"billing": 5, "audit": 0}
    assert names["slowest"].iloc[0] == 4
    replays = names["replays"][["group", "partition", "offset_before", "offset"]].to_numpy().tolist()
    assert replays == [["billing", 0, 3, 1]]
