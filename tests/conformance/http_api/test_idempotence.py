"""docs/http-api.md section 4, the request headers: idempotent producers and expected offsets."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.http_api import Api

Send = Callable[..., Any]


class Producer:
    """One producer id; ``send`` posts one record under a sequence."""

    def __init__(self, api: Api, topic: str) -> None:
        answer = api.http.post("/v1/producers", json={})
        assert answer.status_code == 201, answer.text
        assert answer.json().keys() == {"producer_id", "epoch"}
        self.identity = answer.json()
        self._api = api
        self._topic = topic

    def headers(self, sequence: int, **changed: Any) -> dict[str, str]:
        return {
            "Tidelog-Producer-Id": str(changed.get("id", self.identity["producer_id"])),
            "Tidelog-Producer-Epoch": str(changed.get("epoch", self.identity["epoch"])),
            "Tidelog-Producer-Sequence": str(sequence),
        }

    def send(self, sequence: int, *values: str, partition: int | None = None, **changed: Any) -> Any:
        place = "" if partition is None else f"/partitions/{partition}"
        return self._api.http.post(
            f"/v1/topics/{self._topic}{place}/records",
            json={"records": [{"value": value} for value in values]},
            headers=self.headers(sequence, **changed),
        )


def test_a_producer_id_is_opaque_and_new_each_time(api: Api) -> None:
    """201 with an id of ``[A-Za-z0-9_-]`` and epoch 0; no body is as good as an empty object; unknown members are refused."""
    ids = set()
    for _ in range(3):
        answer = api.http.post("/v1/producers")
        assert answer.status_code == 201
        assert answer.json()["epoch"] == 0
        ids.add(answer.json()["producer_id"])
    assert len(ids) == 3
    assert all(each.replace("_", "").replace("-", "").isalnum() and each.isascii() for each in ids)
    api.refused(api.http.post("/v1/producers", json={"transactional": "x"}), 400, "INVALID_REQUEST")


def test_a_repeat_appends_nothing_and_gets_the_same_offsets(api: Api) -> None:
    """One of the last five again: the original offsets and ``duplicate``; the body is not compared."""
    topic = api.topic(2)
    producer = Producer(api, topic)
    first = [producer.send(sequence, f"{sequence}a", f"{sequence}b", partition=1).json() for sequence in range(6)]
    for sequence in range(1, 6):
        again = producer.send(sequence, "another body", partition=1)
        assert again.status_code == 200
        assert again.json() == {**first[sequence], "duplicate": True}
    problem = api.refused(producer.send(0, "too old", partition=1), 409, "SEQUENCE_OUT_OF_ORDER")
    assert problem["retryable"] is False
    assert problem["expected_sequence"] == 6
    assert len(api.records(topic, 1)) == 12


def test_requests_that_arrive_out_of_order_are_put_in_order(api: Api) -> None:
    """Five on their way at once, the last one first: all are appended, in the order of their sequences."""
    topic = api.topic()
    producer = Producer(api, topic)
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        futures = []
        for sequence in (4, 3, 2, 1, 0):
            futures.append(pool.submit(producer.send, sequence, str(sequence)))
            time.sleep(0.05)
        assert [future.result().status_code for future in futures] == [200] * 5
    assert [record["value"] for record in api.records(topic)] == ["0", "1", "2", "3", "4"]


def test_a_gap_is_waited_for_and_then_refused(api: Api) -> None:
    """Up to four ahead: it waits about five seconds, then 409, retryable, with what is expected. Further: at once."""
    topic = api.topic()
    producer = Producer(api, topic)
    began = time.monotonic()
    problem = api.refused(producer.send(5, "far"), 409, "SEQUENCE_OUT_OF_ORDER")
    assert time.monotonic() - began < 4
    assert problem["retryable"] is True
    assert problem["expected_sequence"] == 0
    began = time.monotonic()
    problem = api.refused(producer.send(4, "near"), 409, "SEQUENCE_OUT_OF_ORDER")
    assert 4 < time.monotonic() - began < 15
    assert problem["retryable"] is True
    assert api.records(topic) == []
    assert producer.send(0, "first").status_code == 200


def test_a_refused_request_uses_no_sequence_up(api: Api) -> None:
    """The same sequence again, with a body that can be stored, is the first of its number."""
    topic = api.topic(max_message_bytes=10)
    producer = Producer(api, topic)
    api.refused(producer.send(0, "x" * 50), 413, "RECORD_TOO_LARGE")
    answer = producer.send(0, "small")
    assert answer.status_code == 200
    assert answer.json()["duplicate"] is False
    assert producer.send(1, "next").status_code == 200


def test_a_repeat_is_a_duplicate_whatever_the_topic_takes_by_now(api: Api) -> None:
    """What is stored is not refused for a setting that came behind it: a refusal would say that nothing happened."""
    topic = api.topic()
    producer = Producer(api, topic)
    first = producer.send(0, "x" * 50).json()
    for config in ({"max.message.bytes": 10}, {"max.message.bytes": None, "cleanup.policy": "compact"}):
        assert api.http.patch(f"/v1/topics/{topic}", json={"config": config}).status_code == 200
        assert producer.send(0, "x" * 50).json() == {**first, "duplicate": True}
        assert producer.send(1, "x" * 50).status_code in (400, 413)


def test_an_empty_request_uses_its_sequence_up(api: Api) -> None:
    """It was answered 200: its number is taken, and a repeat of it is a duplicate."""
    topic = api.topic()
    producer = Producer(api, topic)
    assert producer.send(0).json() == {"topic": topic, "partitions": [], "duplicate": False}
    assert producer.send(0).json() == {"topic": topic, "partitions": [], "duplicate": True}
    assert producer.send(1, "x").json()["partitions"][0]["base_offset"] == 0


def test_sequences_are_of_each_topic_and_each_producer(api: Api) -> None:
    """Another topic, and another producer, begin at 0."""
    one, other = api.topic(), api.topic()
    producer = Producer(api, one)
    assert producer.send(0, "a").status_code == 200
    assert Producer(api, one).send(0, "b").json()["duplicate"] is False
    answer = api.http.post(
        f"/v1/topics/{other}/records", json={"records": [{"value": "c"}]}, headers=producer.headers(0)
    )
    assert answer.json()["duplicate"] is False


def test_what_was_never_issued_is_unknown(api: Api) -> None:
    """Made-up ids, ids that were tampered with, and epochs that no producer got: 404, nothing appended."""
    topic = api.topic()
    producer = Producer(api, topic)
    issued = producer.identity["producer_id"]
    tampered = issued[:-1] + ("0" if issued[-1] != "0" else "1")
    number = "k0000000001400000"
    ids: list[dict[str, Any]] = [{"id": one} for one in ("nobody", tampered, number, f"{number}-0", "kitten")]
    for changed in (*ids, {"epoch": 1}, {"epoch": 2**31}, {"epoch": 2**63 - 1}):
        api.refused(producer.send(0, "x", **changed), 404, "UNKNOWN_PRODUCER")
    assert api.records(topic) == []


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"Tidelog-Producer-Id": "x"}, {"Tidelog-Producer-Epoch", "Tidelog-Producer-Sequence"}),
        ({"Tidelog-Producer-Sequence": "0"}, {"Tidelog-Producer-Id", "Tidelog-Producer-Epoch"}),
        (
            {"Tidelog-Producer-Id": "a b", "Tidelog-Producer-Epoch": "-1", "Tidelog-Producer-Sequence": "one"},
            {"Tidelog-Producer-Id", "Tidelog-Producer-Epoch", "Tidelog-Producer-Sequence"},
        ),
        ({"Tidelog-Expected-Offset": "0"}, {"Tidelog-Expected-Offset"}),
        ({"Tidelog-Expected-Offsets": "0"}, {"Tidelog-Expected-Offsets"}),
    ],
)
def test_malformed_headers_are_named(api: Api, headers: dict[str, str], named: set[str]) -> None:
    """Missing, malformed, misspelt ones, and one on a route that names no partition: 400 naming each."""
    topic = api.topic()
    answer = api.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "x"}]}, headers=headers)
    problem = api.refused(answer, 400, "INVALID_REQUEST")
    assert {error["where"] for error in problem["errors"]} == named
    assert api.records(topic) == []


def test_numbers_in_headers_are_those_of_offsets(api: Api) -> None:
    """Up to the largest offset that there can be: far ahead, or not the next; above it malformed."""
    topic = api.topic()
    producer = Producer(api, topic)
    api.refused(producer.send(2**63 - 1, "x"), 409, "SEQUENCE_OUT_OF_ORDER")
    problem = api.refused(expecting(api, topic, 2**63 - 1, "x"), 412, "EXPECTED_OFFSET_MISMATCH")
    assert (problem["expected"], problem["actual"]) == (2**63 - 1, 0)
    for answer in (producer.send(2**63, "x"), producer.send(0, "x", epoch=2**63), expecting(api, topic, 2**63, "x")):
        api.refused(answer, 400, "INVALID_REQUEST")
    assert api.records(topic) == []


def test_the_headers_do_not_go_with_acks_0(api: Api) -> None:
    """What may be lost can't be promised to be there once."""
    topic = api.topic()
    producer = Producer(api, topic)
    answer = api.http.post(
        f"/v1/topics/{topic}/records?acks=0", json={"records": [{"value": "x"}]}, headers=producer.headers(0)
    )
    api.refused(answer, 400, "INVALID_REQUEST")


def test_a_topic_made_anew_knows_no_sequences(api: Api) -> None:
    """Producers' sequences go with their topic."""
    topic = api.topic()
    producer = Producer(api, topic)
    assert producer.send(0, "old").status_code == 200
    assert api.http.delete(f"/v1/topics/{topic}").status_code == 204
    assert api.http.post("/v1/topics", json={"name": topic}).status_code == 201
    answer = producer.send(0, "new")
    assert answer.status_code == 200
    assert answer.json()["duplicate"] is False
    assert [record["value"] for record in api.records(topic)] == ["new"]


def test_a_producer_that_was_not_used_for_too_long_is_forgotten(api: Api) -> None:
    """After ``producer.id.expiration.ms`` its repeats can't be told any more, so they are refused: never doubled."""
    topic = api.topic(producer_id_expiration_ms=200)
    producer = Producer(api, topic)
    assert producer.send(0, "x").status_code == 200
    time.sleep(0.5)
    api.refused(producer.send(0, "x"), 404, "UNKNOWN_PRODUCER")
    assert Producer(api, topic).send(0, "y").status_code == 200  # and with this commit the first one is dropped
    api.refused(producer.send(0, "x"), 404, "UNKNOWN_PRODUCER")
    assert [record["value"] for record in api.records(topic)] == ["x", "y"]


def test_the_same_request_many_times_at_once_is_there_once(api: Api) -> None:
    """Repeats that meet in one flush: one is appended, the others are told its offsets."""
    topic = api.topic(flush_ms=200)
    producer = Producer(api, topic)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(producer.send, 0, "x", "y") for _ in range(8)]]
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(answer.json()["duplicate"] for answer in answers) == [False] + [True] * 7
    assert len({str(answer.json()["partitions"]) for answer in answers}) == 1
    assert len(api.records(topic)) == 2


def expecting(api: Api, topic: str, offset: object, *values: str, partition: int = 0) -> Any:
    return api.http.post(
        f"/v1/topics/{topic}/partitions/{partition}/records",
        json={"records": [{"value": value} for value in values]},
        headers={"Tidelog-Expected-Offset": str(offset)},
    )


def test_an_expected_offset_is_a_condition(api: Api) -> None:
    """Appended only when it is the partition's next offset; else 412 with both."""
    topic = api.topic(2)
    assert expecting(api, topic, 0, "a", "b").json()["partitions"][0]["last_offset"] == 1
    problem = api.refused(expecting(api, topic, 1, "c"), 412, "EXPECTED_OFFSET_MISMATCH")
    assert (problem["expected"], problem["actual"]) == (1, 2)
    assert expecting(api, topic, 2, "c").status_code == 200
    api.refused(expecting(api, topic, 2, "d", partition=1), 412, "EXPECTED_OFFSET_MISMATCH")
    api.refused(expecting(api, topic, "two", "d"), 400, "INVALID_REQUEST")
    assert [record["value"] for record in api.records(topic)] == ["a", "b", "c"]


def test_of_many_with_one_expectation_one_wins(api: Api) -> None:
    """A compare-and-append: a client that comes second is told where the log is now, also within one flush."""
    topic = api.topic(flush_ms=200)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(expecting, api, topic, 0, str(i)) for i in range(8)]]
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    assert len(api.records(topic)) == 1


def test_a_repeat_of_a_conditional_request_is_a_duplicate(api: Api) -> None:
    """Sequence first, then the condition: the repeat of what was appended is answered as it was, not with 412."""
    topic = api.topic()
    producer = Producer(api, topic)
    headers = {**producer.headers(0), "Tidelog-Expected-Offset": "0"}
    path = f"/v1/topics/{topic}/partitions/0/records"
    first = api.http.post(path, json={"records": [{"value": "x"}]}, headers=headers).json()
    again = api.http.post(path, json={"records": [{"value": "x"}]}, headers=headers)
    assert again.status_code == 200
    assert again.json() == {**first, "duplicate": True}
