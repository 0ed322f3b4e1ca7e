"""Where a redrive produces to is judged as if its caller had named it (docs/http-api.md, section 11.4)."""

from __future__ import annotations

import secrets
from typing import Any

import httpx

from tests.support.http_api import Api, Json
from tests.support.queue_calls import settlement
from tests.support.secured import Secured
from tests.support.waiting import until


def forged(queue: str, topic: str) -> Json:
    """A record that looks as if the queue had put it into its dead letter topic."""
    return {"value": "forged", "headers": {"tidelog-dlq-queue": queue, "tidelog-dlq-topic": topic}}


def made_queue(secured: Secured, api: Api, partition_count: int = 1) -> tuple[str, str, str]:
    """A queue with the only topic that it reads, and its dead letter topic."""
    name, topic, letters = f"queue-{secrets.token_hex(6)}", secured.admin.topic(), secured.admin.topic(partition_count)
    body = {"topics": [topic], "dead_letter_topic": letters}
    answer = secured.admin.http.put(f"/v1/queues/{name}", json=body)
    assert answer.status_code == 201, answer.text
    return name, topic, letters


def values(api: Api, topic: str) -> list[str]:
    """The values of the topic's records."""
    return [record["value"] for record in api.records(topic)]


def put_there(secured: Secured, queue: str, topic: str, letters: str, *given: str) -> list[Json]:
    """What the dead letter topic has, once the queue has put these records of its topic there."""
    admin = secured.admin
    partitions = admin.http.get(f"/v1/topics/{letters}").json()["partition_count"]

    def found() -> list[Json]:
        return [one for partition in range(partitions) for one in admin.records(letters, partition)]

    count = len(found()) + len(given)
    admin.produce(topic, *({"value": value, "headers": {"own": "1"}} for value in given))
    taken = admin.http.post(f"/v1/queues/{queue}:receive", json={"max_wait_ms": 5000}).json()["records"]
    settlements = [settlement(one, "reject" if one["value"] in given else "accept") for one in taken]
    admin.http.post(f"/v1/queues/{queue}:settle", json={"settlements": settlements})
    until(lambda: len(found()) == count, 8.0)
    return found()


def redriven(caller: Api, queue: str, **body: Any) -> httpx.Response:
    """The answer of a redrive."""
    return caller.http.post(f"/v1/queues/{queue}:redrive", json=body)


def as_sent(letter: Json) -> Json:
    """A record with all that a letter shows."""
    return {"key": letter["key"], "value": letter["value"], "headers": letter["headers"]}


def test_only_what_the_queue_put_there_is_redriven(secured: Secured) -> None:
    """Who may write into the dead letter topic has nothing produced into the queue's topics: neither by headers, nor by
    copies of what the queue put there, nor by changes of it. The place of such a letter is told.
    """
    principal, mallory = secured.user()
    queue, topic, letters = made_queue(secured, secured.admin)
    for right in (("Read", "topic", letters), ("Write", "topic", letters)):
        secured.allow(principal, *right)
    (letter,) = put_there(secured, queue, topic, letters, "true")
    forged_ones = [forged(queue, topic), as_sent(letter), as_sent(letter) | {"value": "changed"}]
    mallory.produce(letters, *forged_ones)
    assert redriven(secured.admin, queue).json() == {"redriven": 1}
    other = secured.admin.topic()
    bodies: tuple[Json, ...] = ({}, {"to_topic": other}, {"max_records": 1})
    for body in bodies:
        problem = secured.admin.refused(redriven(secured.admin, queue, **body), 400, "INVALID_REQUEST")
        assert "partition 0, offset 1" in problem["detail"]
    put_there(secured, queue, topic, letters, "another")
    assert redriven(secured.admin, queue, unproved="skip").json() == {"redriven": 1}
    assert values(secured.admin, topic) == ["true", "true", "another", "another"]
    assert values(secured.admin, other) == []
    assert redriven(secured.admin, queue).json() == {"redriven": 0}


def test_a_copy_ahead_of_its_turn_is_none(secured: Secured) -> None:
    """A letter that is not redriven yet can't be had produced twice by a copy, in its partition or in another one."""
    queue, topic, letters = made_queue(secured, secured.admin, partition_count=2)
    found = put_there(secured, queue, topic, letters, "a", "b")
    copies = [as_sent(one) | {"partition": partition} for one in found for partition in (0, 1)]
    secured.admin.produce(letters, *copies)
    assert redriven(secured.admin, queue, unproved="skip", max_records=1).json() == {"redriven": 1}
    assert redriven(secured.admin, queue, unproved="skip").json() == {"redriven": 1}
    assert sorted(values(secured.admin, topic)) == ["a", "a", "b", "b"]


def test_what_lay_there_before_a_setting_is_no_letter_after_it(secured: Secured) -> None:
    """A queue that goes back to a dead letter topic begins at its end; copies of what lay there before are no letters."""
    queue, topic, letters = made_queue(secured, secured.admin)
    (letter,) = put_there(secured, queue, topic, letters, "a")
    elsewhere = secured.admin.topic()
    for name in (elsewhere, letters):
        body = {"topics": [topic], "dead_letter_topic": name}
        assert secured.admin.http.put(f"/v1/queues/{queue}", json=body).status_code == 200
    secured.admin.produce(letters, as_sent(letter))
    secured.admin.refused(redriven(secured.admin, queue), 400, "INVALID_REQUEST")
    put_there(secured, queue, topic, letters, "b")
    assert redriven(secured.admin, queue, unproved="skip").json() == {"redriven": 1}
    assert values(secured.admin, topic) == ["a", "b", "b"]


def test_who_says_so_has_unproved_letters_produced(secured: Secured) -> None:
    """Letters that can't be proved, of an earlier release say, are produced where the caller wants them: into the queue's topics,
    or where it names one."""
    queue, topic, letters = made_queue(secured, secured.admin)
    other = secured.admin.topic()
    secured.admin.produce(letters, forged(queue, topic), forged(queue, topic))
    body = {"unproved": "produce", "max_records": 1}
    assert redriven(secured.admin, queue, **body).json() == {"redriven": 1}
    assert redriven(secured.admin, queue, **body, to_topic=other).json() == {"redriven": 1}
    assert (values(secured.admin, topic), values(secured.admin, other)) == (["forged"], ["forged"])
    secured.admin.refused(redriven(secured.admin, queue, unproved="perhaps"), 400, "INVALID_REQUEST")


def test_a_header_names_no_target_that_the_queue_does_not_read(secured: Secured) -> None:
    """Neither a caller with rights on its own topics only nor a super user forges records elsewhere by a header."""
    principal, mallory = secured.user()
    queue, topic, letters = made_queue(secured, secured.admin)
    victim = secured.admin.topic()
    for right in (("All", "group", queue), ("All", "topic", topic), ("All", "topic", letters)):
        secured.allow(principal, *right)
    mallory.produce(letters, forged(queue, topic))
    mallory.produce(letters, forged(queue, victim))
    assert redriven(mallory, queue, unproved="produce").json() == {"redriven": 1}
    for caller in (mallory, secured.admin):
        problem = caller.refused(redriven(caller, queue, unproved="produce"), 400, "INVALID_REQUEST")
        assert victim in problem["detail"]
    assert (values(secured.admin, topic), values(secured.admin, victim)) == (["forged"], [])
    passed = redriven(secured.admin, queue, to_topic=secured.admin.topic(), max_records=1, unproved="produce")
    assert passed.json() == {"redriven": 1}


def test_a_reserved_topic_is_no_target(secured: Secured) -> None:
    """Neither a header nor a super user who names it has dead letters produced to the audit topic."""
    queue, _, letters = made_queue(secured, secured.admin)
    secured.admin.produce(letters, forged(queue, "__audit"))
    for body in ({}, {"to_topic": "__audit"}):
        answer = redriven(secured.admin, queue, unproved="produce", **body)
        assert answer.status_code in (400, 403), answer.text
