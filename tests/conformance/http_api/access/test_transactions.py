"""A commit is judged by what it does: Write on each topic that has staged records."""

from __future__ import annotations

import secrets

from tests.support.secured import Secured


def test_a_commit_needs_write_on_each_topic_with_staged_records(secured: Secured) -> None:
    """Nothing is visible without the right; with it again, the same commit succeeds."""
    principal, api = secured.user()
    mark = secrets.token_hex(6)
    topic, tid = f"topic-{mark}", f"tid-{mark}"
    secured.admin.http.post("/v1/topics", json={"name": topic, "config": {"flush.ms": 0}})
    secured.allow(principal, "Write", "transactional_id", tid)
    secured.allow(principal, "Write", "topic", topic)
    begun = api.http.post("/v1/transactions", json={"transactional_id": tid}).json()
    headers = {"tidelog-transaction": begun["transaction_id"]}
    sent = api.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "a"}]}, headers=headers)
    assert sent.status_code == 202, sent.text
    secured.forget(principal)
    secured.allow(principal, "Write", "transactional_id", tid)
    commit = f"/v1/transactions/{begun['transaction_id']}:commit"
    problem = api.refused(api.http.post(commit, json={}), 403, "UNAUTHORIZED")
    assert (problem["operation"], problem["resource_type"], problem["resource"]) == ("Write", "topic", topic)
    read = f"/v1/topics/{topic}/partitions/0/records?offset=earliest"
    assert secured.admin.http.get(read).json()["records"] == []
    secured.allow(principal, "Write", "topic", topic)
    assert api.http.post(commit, json={}).status_code == 200
    assert len(secured.admin.http.get(read).json()["records"]) == 1
