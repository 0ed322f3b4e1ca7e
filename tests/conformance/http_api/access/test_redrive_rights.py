"""Where a redrive produces to is judged as if its caller had named it (docs/http-api.md, section 11.4)."""

from __future__ import annotations

import secrets

from tests.support.http_api import Api, Json
from tests.support.secured import Secured


def forged(queue: str, topic: str) -> Json:
    """A record that looks as if the queue had put it into its dead letter topic."""
    return {"value": "forged", "headers": {"tidelog-dlq-queue": queue, "tidelog-dlq-topic": topic}}


def made_queue(secured: Secured, api: Api) -> tuple[str, str, str]:
    """A queue with the only topic that it reads, and its dead letter topic."""
    name, topic, letters = f"queue-{secrets.token_hex(6)}", secured.admin.topic(), secured.admin.topic()
    body = {"topics": [topic], "dead_letter_topic": letters}
    answer = secured.admin.http.put(f"/v1/queues/{name}", json=body)
    assert answer.status_code == 201, answer.text
    return name, topic, letters


def values(api: Api, topic: str) -> list[str]:
    """The values of the topic's records."""
    return [record["value"] for record in api.records(topic)]


def test_a_header_names_no_target_that_the_queue_does_not_read(secured: Secured) -> None:
    """Neither a caller with rights on its own topics only nor a super user forges records elsewhere by a header."""
    principal, mallory = secured.user()
    queue, topic, letters = made_queue(secured, secured.admin)
    victim = secured.admin.topic()
    for right in (("All", "group", queue), ("All", "topic", topic), ("All", "topic", letters)):
        secured.allow(principal, *right)
    mallory.produce(letters, forged(queue, topic))
    mallory.produce(letters, forged(queue, victim))
    assert mallory.http.post(f"/v1/queues/{queue}:redrive", json={}).json() == {"redriven": 1}
    for caller in (mallory, secured.admin):
        problem = caller.refused(caller.http.post(f"/v1/queues/{queue}:redrive", json={}), 400, "INVALID_REQUEST")
        assert victim in problem["detail"]
    assert (values(secured.admin, topic), values(secured.admin, victim)) == (["forged"], [])
    other = secured.admin.topic()
    passed = secured.admin.http.post(f"/v1/queues/{queue}:redrive", json={"to_topic": other, "max_records": 1})
    assert passed.json() == {"redriven": 1}


def test_a_reserved_topic_is_no_target(secured: Secured) -> None:
    """Neither a header nor a super user who names it has dead letters produced to the audit topic."""
    queue, _, letters = made_queue(secured, secured.admin)
    secured.admin.produce(letters, forged(queue, "__audit"))
    for body in ({}, {"to_topic": "__audit"}):
        answer = secured.admin.http.post(f"/v1/queues/{queue}:redrive", json=body)
        assert answer.status_code in (400, 403), answer.text
