"""Transactions over HTTP: all of a transaction's records appear, or none, and every refusal is the contract's."""

from __future__ import annotations

import gzip
import secrets
import time
from typing import Any

import httpx
import pytest

from tests.support.http_api import Api

Json = dict[str, Any]


class Calls:
    """The calls about transactions of one transactional id."""

    def __init__(self, api: Api) -> None:
        self.http: httpx.Client = api.http
        self.transactional_id = f"id-{secrets.token_hex(6)}"

    def begin(self, **members: Any) -> Json:
        """A new transaction."""
        body = {"transactional_id": self.transactional_id} | members
        answer = self.http.post("/v1/transactions", json=body)
        assert answer.status_code == 201, answer.text
        begun: Json = answer.json()
        return begun

    def stage(self, begun: Json, topic: str, *values: str, sequence: int | None = None, **stamp: Any) -> httpx.Response:
        """Records for a topic within the transaction."""
        headers = {"Tidelog-Transaction": begun["transaction_id"]}
        if sequence is not None:
            stamp = {"producer_id": begun["producer_id"], "epoch": begun["epoch"]} | stamp
            headers |= {
                "Tidelog-Producer-Id": stamp["producer_id"],
                "Tidelog-Producer-Epoch": str(stamp["epoch"]),
                "Tidelog-Producer-Sequence": str(sequence),
            }
        records = [{"value": value} for value in values]
        return self.http.post(f"/v1/topics/{topic}/records", json={"records": records}, headers=headers)

    def end(self, begun: Json, how: str) -> httpx.Response:
        """``commit`` or ``abort``."""
        return self.http.post(f"/v1/transactions/{begun['transaction_id']}:{how}")

    def state(self, begun: Json) -> str:
        """What became of it."""
        state: str = self.http.get(f"/v1/transactions/{begun['transaction_id']}").json()["state"]
        return state


@pytest.fixture
def calls(api: Api) -> Calls:
    """Calls for a transactional id of this test's own."""
    return Calls(api)


def _values(api: Api, topic: str) -> list[str]:
    return [record["value"] for record in api.records(topic)]


def _is_refused(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json().get("error_code")) == (status, code), answer.text
    assert answer.json()["may_have_happened"] is False


def test_with_log_append_time_a_transaction_has_the_time_of_its_commit(api: Api, calls: Calls) -> None:
    """In each partition times don't go back, however long before the commit the records were staged; else the client's stay."""
    appended, created = api.topic(message_timestamp_type="LogAppendTime"), api.topic()
    begun = calls.begin()
    for topic in (appended, created):
        assert calls.stage(begun, topic, "staged first").status_code == 202
    staged_ms = int(time.time() * 1000)
    time.sleep(0.05)
    for topic in (appended, created):
        assert api.produce(topic, {"value": "in between"}).status_code == 200
    assert calls.end(begun, "commit").status_code == 200
    assert _values(api, appended) == _values(api, created) == ["in between", "staged first"]
    between, last = (record["timestamp"] for record in api.records(appended))
    assert between <= last <= time.time() * 1000
    between, last = (record["timestamp"] for record in api.records(created))
    assert last <= staged_ms < between


def test_committed_records_appear_together_and_once(api: Api, calls: Calls) -> None:
    """Nothing is visible before the commit, everything is after it; the same commit again gives the same answer."""
    first, second = api.topic(), api.topic()
    begun = calls.begin()
    assert calls.stage(begun, first, "a", "b").json() == {"staged": 2}
    assert calls.stage(begun, second, "c").status_code == 202
    assert calls.stage(begun, first, "d").status_code == 202
    assert (_values(api, first), _values(api, second), calls.state(begun)) == ([], [], "open")
    answer = calls.end(begun, "commit")
    assert answer.status_code == 200, answer.text
    place = {"partition": 0, "base_offset": 0}
    topics: list[dict[str, Any]] = [
        {"topic": first, "partitions": [place | {"last_offset": 2, "count": 3}]},
        {"topic": second, "partitions": [place | {"last_offset": 0, "count": 1}]},
    ]
    assert answer.json() == {"state": "committed", "topics": sorted(topics, key=lambda topic: topic["topic"])}
    assert (_values(api, first), _values(api, second)) == (["a", "b", "d"], ["c"])
    assert calls.end(begun, "commit").json() == answer.json()
    assert (_values(api, first), calls.state(begun)) == (["a", "b", "d"], "committed")
    _is_refused(calls.end(begun, "abort"), 409, "TRANSACTION_NOT_OPEN")
    _is_refused(calls.stage(begun, first, "e"), 409, "TRANSACTION_NOT_OPEN")


def test_aborted_records_never_appear(api: Api, calls: Calls) -> None:
    """An abort may be repeated; what follows it is refused and leaves nothing in the topic."""
    topic = api.topic()
    begun = calls.begin()
    calls.stage(begun, topic, "a")
    assert calls.end(begun, "abort").json() == {"state": "aborted"}
    assert calls.end(begun, "abort").json() == {"state": "aborted"}
    _is_refused(calls.end(begun, "commit"), 409, "TRANSACTION_NOT_OPEN")
    _is_refused(calls.stage(begun, topic, "b"), 409, "TRANSACTION_NOT_OPEN")
    assert (_values(api, topic), calls.state(begun)) == ([], "aborted")


def test_a_newer_epoch_fences(api: Api, calls: Calls) -> None:
    """Of two processes with one transactional id the older can't stage, commit or abort any more; the newer can."""
    topic = api.topic()
    old = calls.begin()
    calls.stage(old, topic, "old")
    new = calls.begin()
    assert (new["producer_id"], new["epoch"]) == (old["producer_id"], old["epoch"] + 1)
    for answer in (calls.stage(old, topic, "x"), calls.end(old, "commit"), calls.end(old, "abort")):
        _is_refused(answer, 409, "FENCED_PRODUCER")
    stale = calls.stage(new, topic, "x", sequence=0, epoch=old["epoch"])
    _is_refused(stale, 409, "FENCED_PRODUCER")
    calls.stage(new, topic, "new")
    assert calls.end(new, "commit").status_code == 200
    assert (_values(api, topic), calls.state(old)) == (["new"], "aborted")


def test_a_new_producer_fences_too(api: Api, calls: Calls) -> None:
    """``POST /v1/producers`` with the transactional id raises its epoch; that epoch may write outside a transaction."""
    topic = api.topic()
    begun = calls.begin()
    body = {"transactional_id": calls.transactional_id}
    producer = api.http.post("/v1/producers", json=body).json()
    assert producer == {"producer_id": begun["producer_id"], "epoch": begun["epoch"] + 1}
    _is_refused(calls.end(begun, "commit"), 409, "FENCED_PRODUCER")
    headers = {"Tidelog-Producer-Id": producer["producer_id"], "Tidelog-Producer-Sequence": "0"}
    for epoch, status in ((producer["epoch"] + 1, 404), (begun["epoch"], 409), (producer["epoch"], 200)):
        stamped = headers | {"Tidelog-Producer-Epoch": str(epoch)}
        answer = api.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "p"}]}, headers=stamped)
        assert answer.status_code == status, answer.text
    assert _values(api, topic) == ["p"]


def test_a_repeated_request_stages_nothing(api: Api, calls: Calls) -> None:
    """With the producer headers a request is in the transaction once; a gap and a stranger's id are refused."""
    topic = api.topic()
    begun = calls.begin()
    assert calls.stage(begun, topic, "a", sequence=0).json() == {"staged": 1}
    assert calls.stage(begun, topic, "a", sequence=0).json() == {"staged": 1, "duplicate": True}
    _is_refused(calls.stage(begun, topic, "z", sequence=9), 409, "SEQUENCE_OUT_OF_ORDER")
    _is_refused(calls.stage(begun, topic, "z", sequence=1, producer_id="other"), 400, "INVALID_REQUEST")
    assert calls.stage(begun, topic, "b", sequence=1).status_code == 202
    assert calls.end(begun, "commit").status_code == 200
    assert _values(api, topic) == ["a", "b"]


def test_one_that_outlives_its_time_is_aborted(api: Api, calls: Calls) -> None:
    """After ``timeout_ms`` a transaction can't be committed, and nothing of it ever appears."""
    topic = api.topic()
    begun = calls.begin(timeout_ms=1000)
    calls.stage(begun, topic, "late")
    while time.time() * 1000 <= begun["expires_at"] + 50:
        time.sleep(0.05)
    _is_refused(calls.end(begun, "commit"), 409, "TRANSACTION_NOT_OPEN")
    assert (_values(api, topic), calls.state(begun)) == ([], "aborted")


def test_a_topic_deleted_meanwhile_aborts_it(api: Api, calls: Calls) -> None:
    """A commit is all or nothing over its topics: when one was deleted and made anew, none gets its records."""
    kept, gone = api.topic(), api.topic()
    begun = calls.begin()
    calls.stage(begun, kept, "a")
    calls.stage(begun, gone, "b")
    api.http.delete(f"/v1/topics/{gone}")
    api.http.post("/v1/topics", json={"name": gone})
    _is_refused(calls.end(begun, "commit"), 409, "TRANSACTION_NOT_OPEN")
    _is_refused(calls.stage(begun, kept, "c"), 409, "TRANSACTION_NOT_OPEN")
    assert (_values(api, kept), _values(api, gone)) == ([], [])


def test_an_empty_transaction_commits(calls: Calls) -> None:
    """Without records there is nothing to show, and nothing to refuse."""
    assert calls.end(calls.begin(), "commit").json() == {"state": "committed", "topics": []}


@pytest.mark.parametrize(
    "body",
    [{}, {"transactional_id": ""}, {"transactional_id": "a\n"}, {"transactional_id": "a", "timeout_ms": 999}, {"x": 1}],
)
def test_a_bad_beginning_is_refused(api: Api, body: Json) -> None:
    """Ids and time-outs outside their ranges, and unknown members, begin nothing."""
    _is_refused(api.http.post("/v1/transactions", json=body), 400, "INVALID_REQUEST")


def test_ending_takes_no_members(api: Api, calls: Calls) -> None:
    """An empty object, white space or nothing; whatever else is sent is refused, and the transaction is as open as before."""
    topic = api.topic()
    begun = calls.begin()
    assert calls.stage(begun, topic, "a").status_code == 202
    url = f"/v1/transactions/{begun['transaction_id']}"
    too_much = gzip.compress(b" " * (api.http.get("/v1/cluster").json()["limits"]["request_bytes_max"] + 1))
    for how in ("commit", "abort"):
        problem = api.refused(api.http.post(f"{url}:{how}", json={"reason": "x"}), 400, "INVALID_REQUEST")
        assert [error["where"] for error in problem["errors"]] == ["/reason"]
        for body in (b"[]", b"{", b"nonsense"):
            answer = api.http.post(f"{url}:{how}", content=body, headers={"content-type": "application/json"})
            _is_refused(answer, 400, "INVALID_REQUEST")
        other_type = {"content-type": "text/plain"}
        _is_refused(api.http.post(f"{url}:{how}", content=b"x", headers=other_type), 415, "UNSUPPORTED_MEDIA_TYPE")
        answer = api.http.post(f"{url}:{how}", content=too_much, headers={"content-encoding": "gzip"})
        _is_refused(answer, 413, "REQUEST_TOO_LARGE")
    assert calls.state(begun) == "open"
    assert api.http.post(f"{url}:commit", json={}).status_code == 200
    assert api.http.post(f"{url}:commit", content=b" \n").status_code == 200
    assert _values(api, topic) == ["a"]


def test_what_nobody_began_is_unknown(api: Api) -> None:
    """Every call about a transaction that does not exist answers 404, and staging for it leaves nothing."""
    topic = api.topic()
    for how in (":commit", ":abort"):
        _is_refused(api.http.post(f"/v1/transactions/none{how}"), 404, "UNKNOWN_TRANSACTION")
    _is_refused(api.http.get("/v1/transactions/none"), 404, "UNKNOWN_TRANSACTION")
    _is_refused(Calls(api).stage({"transaction_id": "none"}, topic, "a"), 404, "UNKNOWN_TRANSACTION")


def test_headers_that_do_not_go_with_it(api: Api, calls: Calls) -> None:
    """``acks=0`` and an expected offset have no meaning within a transaction."""
    topic = api.topic()
    begun = calls.begin()
    headers = {"Tidelog-Transaction": begun["transaction_id"]}
    body = {"records": [{"value": "a"}]}
    url = f"/v1/topics/{topic}/partitions/0/records"
    expected = headers | {"Tidelog-Expected-Offset": "0"}
    _is_refused(api.http.post(url, json=body, headers=expected), 400, "INVALID_REQUEST")
    _is_refused(api.http.post(f"{url}?acks=0", json=body, headers=headers), 400, "INVALID_REQUEST")


def test_the_number_of_the_newest_committed_one_is_told(calls: Calls, api: Api) -> None:
    """A client that begins with a number is told the newest number that was committed; other transactions do not count.

    So a client that repeats a piece of work knows whether it is done.
    """
    topic = api.topic()
    assert "last_number" not in calls.begin()
    assert calls.begin(number=0)["last_number"] is None
    for number in (0, 7):
        begun = calls.begin(number=number)
        assert calls.stage(begun, topic, str(number)).status_code == 202
        assert calls.end(begun, "commit").status_code == 200
    aborted = calls.begin(number=8)
    assert aborted["last_number"] == 7
    assert calls.end(aborted, "abort").status_code == 200
    fenced = calls.begin(number=8)
    without = calls.begin()
    assert (fenced["last_number"], "last_number" in without) == (7, False)
    assert calls.end(fenced, "commit").status_code == 409
    assert calls.end(without, "commit").status_code == 200
    assert api.http.post("/v1/producers", json={"transactional_id": calls.transactional_id}).status_code == 201
    assert calls.begin(number=9)["last_number"] == 7
    assert _values(api, topic) == ["0", "7"]
    for wrong in (-1, 2**53, "8", None, True):
        body = {"transactional_id": calls.transactional_id, "number": wrong}
        problem = api.refused(api.http.post("/v1/transactions", json=body), 400, "INVALID_REQUEST")
        assert problem["errors"][0]["where"] == "/number"
