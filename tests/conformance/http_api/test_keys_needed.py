"""``cleanup.policy`` with ``compact``, as in Kafka (docs/http-api.md section 3.6): a new record must have a key."""

from __future__ import annotations

import secrets

import pyarrow as pa
import pytest

from tests.support.http_api import Api

ARROW = "application/vnd.apache.arrow.stream"
GOOD = {"key": "", "value": "an empty key is a key"}


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_record_without_a_key_is_refused_by_name(api: Api, policy: str) -> None:
    """In every body that a topic takes: 400 ``INVALID_RECORD`` that says which record, and nothing of the request is there."""
    topic = api.topic(cleanup_policy=policy)
    table = pa.table({"key": pa.array([b"k", None, b""]), "value": [b"a", b"b", b"c"]})
    lines = '{"key": "k", "value": "a"}\n\n{"value": "b"}\n'
    for answer, where in (
        (api.produce(topic, GOOD, {"value": "x"}, {"key": None, "value": "x"}), "/records/1/key"),
        (api.produce(topic, {"value": "x"}, partition=0), "/records/0/key"),
        (api.produce(topic, {"value": "x"}, acks="0"), "/records/0/key"),
        (api.produce_body(topic, "application/x-ndjson", lines), "line 3"),
        (api.produce_body(topic, ARROW, stream_of(table)), "/records/1/key"),
        (api.produce_body(topic, ARROW, stream_of(table.select(["value"]))), "/records/0/key"),
        (api.produce_body(topic, "text/plain", "x"), "key"),
    ):
        problem = api.refused(answer, 400, "INVALID_RECORD")
        assert problem["errors"][0]["where"] == where
    assert api.records(topic) == []
    assert api.produce(topic, GOOD, {"key": "k", "value": None}).status_code == 200
    assert [record["value"] for record in api.records(topic)] == [GOOD["value"], None]


def test_transactions_refuse_when_they_are_told(api: Api) -> None:
    """Staging and ``POST /v1/records`` refuse as produce does; the transaction stays open, and its other records appear."""
    topic, other = api.topic(cleanup_policy="compact"), api.topic()
    body = {
        "topics": [{"topic": other, "records": [{"value": "x"}]}, {"topic": topic, "records": [GOOD, {"value": "x"}]}]
    }
    problem = api.refused(api.http.post("/v1/records", json=body), 400, "INVALID_RECORD")
    assert [error["where"] for error in problem["errors"]] == ["/topics/1/records/1/key"]
    begun = api.http.post("/v1/transactions", json={"transactional_id": secrets.token_hex(6)}).json()
    headers = {"Tidelog-Transaction": begun["transaction_id"]}
    for record, status in (({"value": "x"}, 400), (GOOD, 202)):
        answer = api.http.post(f"/v1/topics/{topic}/records", json={"records": [record]}, headers=headers)
        assert answer.status_code == status, answer.text
    assert api.http.post(f"/v1/transactions/{begun['transaction_id']}:commit").status_code == 200
    assert (len(api.records(topic)), len(api.records(other))) == (1, 0)


def test_the_policy_counts_when_a_record_comes(api: Api) -> None:
    """Without ``compact`` keys are not needed; what came so stays readable when the policy changes, and back again."""
    topic = api.topic()
    assert api.produce(topic, {"value": "before"}).status_code == 200
    for policy, status in (("compact", 400), ("delete", 200)):
        assert api.http.patch(f"/v1/topics/{topic}", json={"config": {"cleanup.policy": policy}}).status_code == 200
        assert api.produce(topic, {"value": "after"}).status_code == status
    assert [record["value"] for record in api.records(topic)] == ["before", "after"]
