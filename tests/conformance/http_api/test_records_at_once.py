"""``POST /v1/records``: several topics and groups in one request, all or nothing (docs/http-api.md section 5.4)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.support.contract_gateways import Caller
from tests.support.http_api import Api

Json = dict[str, Any]


class Sender:
    """One idempotent producer."""

    def __init__(self, api: Api) -> None:
        self.http: httpx.Client = api.http
        self.url: str = api.url
        self.headers = api.headers
        self.producer: Json = api.http.post("/v1/producers", json={}).json()

    def send(self, sequence: int | None, *topics: tuple[str, list[str]], **members: Any) -> httpx.Response:
        """Values for topics, with the producer's headers where there is a sequence."""
        headers = dict(self.headers)
        if sequence is not None:
            headers |= {
                "Tidelog-Producer-Id": self.producer["producer_id"],
                "Tidelog-Producer-Epoch": str(self.producer["epoch"]),
                "Tidelog-Producer-Sequence": str(sequence),
            }
        entries = [{"topic": topic, "records": [{"value": value} for value in values]} for topic, values in topics]
        body = {"topics": entries} | members
        return httpx.post(f"{self.url}/v1/records", json=body, headers=headers, timeout=30, trust_env=False)


@pytest.fixture(scope="module", params=["own", "shared"])
def api(caller: Caller, request: pytest.FixtureRequest) -> Iterator[Api]:
    """The API, with topics of either mode."""
    made = Api(*caller, commit_mode=request.param)
    yield made
    made.http.close()


@pytest.fixture
def sender(api: Api) -> Sender:
    """A producer of this test's own."""
    return Sender(api)


def _values(api: Api, topic: str) -> list[str]:
    return [record["value"] for record in api.records(topic)]


def test_everything_is_there_when_it_is_answered(api: Api, sender: Sender) -> None:
    """The answer is that of a commit: where each topic has its records."""
    one, other = sorted((api.topic(), api.topic()))
    answer = sender.send(None, (one, ["a", "b"]), (other, ["c"]))
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "state": "committed",
        "topics": [
            {"topic": one, "partitions": [{"partition": 0, "base_offset": 0, "last_offset": 1, "count": 2}]},
            {"topic": other, "partitions": [{"partition": 0, "base_offset": 0, "last_offset": 0, "count": 1}]},
        ],
        "duplicate": False,
    }
    assert (_values(api, one), _values(api, other)) == (["a", "b"], ["c"])


@pytest.mark.parametrize("name", ["..", ".", "", "a/../b", "a//b", "/", "x" * 250, "x" * 5_000, "\u00e4", "a b"])
def test_no_topic_is_called_so(api: Api, sender: Sender, name: str) -> None:
    """A name that no topic can have is that of an unknown topic, whatever it would be in a path."""
    topic = api.topic()
    api.refused(sender.send(0, (topic, ["a"]), (name, ["b"])), 404, "UNKNOWN_TOPIC")
    assert _values(api, topic) == []


def test_nothing_is_there_when_a_part_is_refused(api: Api, sender: Sender) -> None:
    """An unknown topic, a bad record, a group that refuses: no topic has anything, no sequence is used up."""
    topic = api.topic()
    api.refused(sender.send(0, (topic, ["a"]), ("no-such-topic", ["b"])), 404, "UNKNOWN_TOPIC")
    bad = {"topics": [{"topic": topic, "records": [{"value": "a"}, {"value": 1, "x": 2}]}]}
    problem = api.refused(api.http.post("/v1/records", json=bad), 400, "INVALID_RECORD")
    assert problem["errors"][0]["where"].startswith("/topics/0/records/1")
    assert f"{problem['errors'][0]['where']}:" in problem["detail"]
    offsets = [{"group": "g", "offsets": [{"topic": topic, "partition": 9, "offset": 0}]}]
    api.refused(sender.send(0, (topic, ["a"]), group_offsets=offsets), 404, "UNKNOWN_PARTITION")
    assert _values(api, topic) == []
    assert sender.send(0, (topic, ["a"])).status_code == 200
    assert _values(api, topic) == ["a"]


def test_a_repeat_gets_the_first_answer(api: Api, sender: Sender) -> None:
    """The same sequence again appends nothing, whatever the body is."""
    one, other = api.topic(), api.topic()
    first = sender.send(0, (one, ["a"]), (other, ["b"])).json()
    assert sender.send(1, (one, ["c"])).status_code == 200
    assert sender.send(0, (one, ["x"])).json() == first | {"duplicate": True}
    assert (_values(api, one), _values(api, other)) == (["a", "c"], ["b"])


def test_sequences_go_over_all_topics_by_the_rules_of_produce(api: Api, sender: Sender) -> None:
    """Far ahead and too old are refused; a producer's requests to a topic have sequences of their own."""
    topic = api.topic()
    ahead = api.refused(sender.send(5, (topic, ["x"])), 409, "SEQUENCE_OUT_OF_ORDER")
    assert (ahead["expected_sequence"], ahead["retryable"]) == (0, True)
    for sequence in range(7):
        assert sender.send(sequence, (topic, [str(sequence)])).status_code == 200
    old = api.refused(sender.send(1, (topic, ["x"])), 409, "SEQUENCE_OUT_OF_ORDER")
    assert old["retryable"] is False
    headers = {
        "Tidelog-Producer-Id": sender.producer["producer_id"],
        "Tidelog-Producer-Epoch": "0",
        "Tidelog-Producer-Sequence": "0",
    }
    url = f"/v1/topics/{topic}/records"
    assert api.http.post(url, json={"records": [{"value": "own"}]}, headers=headers).status_code == 200
    assert _values(api, topic) == [*map(str, range(7)), "own"]


def test_requests_in_flight_are_put_in_order(api: Api, sender: Sender) -> None:
    """Five at once, the last first: each waits for those before it, and the topic has them in order."""
    topic = api.topic()
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda sequence: sender.send(sequence, (topic, [str(sequence)])), (4, 3, 2, 1, 0)))
    assert [answer.status_code for answer in answers] == [200] * 5, [answer.text for answer in answers]
    assert _values(api, topic) == ["0", "1", "2", "3", "4"]


def test_offsets_of_groups_ride_along(api: Api, sender: Sender) -> None:
    """Records and a group's offsets in one: both are there."""
    topic, group = api.topic(), f"group-{secrets.token_hex(6)}"
    api.produce(topic, {"value": "input"})
    offsets = [{"group": group, "offsets": [{"topic": topic, "partition": 0, "offset": 1}]}]
    assert sender.send(None, (topic, ["output"]), group_offsets=offsets).status_code == 200
    committed = api.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [(one["topic"], one["offset"]) for one in committed] == [(topic, 1)]
    assert _values(api, topic) == ["input", "output"]


def test_values_keep_their_text(api: Api, sender: Sender) -> None:
    """Numbers in objects are stored as they were written, keys choose the partition, nothing at all is an answer, too."""
    topic = api.topic()
    value = '{"n":1.50e3,"m":10000000000000000000000}'
    text = f'{{"topics":[{{"topic":"{topic}","records":[{{"value":{value}}}]}}]}}'
    answer = api.http.post("/v1/records", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert _values(api, topic) == [value]
    assert sender.send(None, (topic, [])).json()["topics"] == []


def test_bad_envelopes_are_refused(api: Api) -> None:
    """Unknown, missing and repeated members, wrong types, other content types, headers that do not go with it."""
    topic = api.topic()
    bodies: tuple[Any, ...] = (
        {},
        {"topics": {}},
        {"topics": [{"topic": topic}]},
        {"topics": [{"topic": topic, "records": {}}]},
        {"topics": [], "x": 1},
        {"topics": [{"topic": topic, "records": [], "x": 1}]},
        {"topics": [], "group_offsets": [{"group": "g"}]},
    )
    for body in bodies:
        api.refused(api.http.post("/v1/records", json=body), 400, "INVALID_REQUEST")
    json_type = {"content-type": "application/json"}
    twice = b'{"topics":[],"topics":[]}'
    api.refused(api.http.post("/v1/records", content=twice, headers=json_type), 400, "INVALID_REQUEST")
    api.refused(api.http.post("/v1/records", content=b"[", headers=json_type), 400, "INVALID_REQUEST")
    other = {"content-type": "text/plain"}
    api.refused(api.http.post("/v1/records", content=b"x", headers=other), 415, "UNSUPPORTED_MEDIA_TYPE")
    for header in ("Tidelog-Transaction", "Tidelog-Expected-Offset", "Tidelog-Producer-Id"):
        answer = api.http.post("/v1/records", json={"topics": []}, headers={header: "1"})
        api.refused(answer, 400, "INVALID_REQUEST")
