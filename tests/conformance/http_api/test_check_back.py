"""docs/http-api.md section 12: silent open transactions are offered to clients that ask, each to one for 30 s."""

from __future__ import annotations

import concurrent.futures
import secrets
import time
from typing import Any

import pytest

from tests.support.http_api import Api, Json

URL = "/v1/transactions"


def begun(api: Api, transactional_id: str, **members: Any) -> Json:
    answer = api.http.post(URL, json={"transactional_id": transactional_id} | members)
    assert answer.status_code == 201, answer.text
    found: Json = answer.json()
    return found


def checked(api: Api, prefix: str, **members: Any) -> list[Json]:
    answer = api.http.post(f"{URL}:check", json={"transactional_id_prefix": prefix} | members)
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"transactions"}
    found: list[Json] = answer.json()["transactions"]
    return found


@pytest.fixture
def prefix() -> str:
    return f"check-{secrets.token_hex(6)}-"


def test_a_silent_transaction_is_offered_after_its_time_to_one_asker(api: Api, prefix: str) -> None:
    """Of several askers one gets it, once its time is over; `:commit` ends it."""
    topic = api.topic()
    transaction = begun(api, f"{prefix}a", check_after_ms=1_000)
    begun(api, f"{prefix}b")
    headers = {"Tidelog-Transaction": transaction["transaction_id"]}
    api.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "v"}]}, headers=headers)
    assert checked(api, prefix) == []
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as askers:
        answers = list(askers.map(lambda _: checked(api, prefix, max_wait_ms=3_000), range(4)))
    assert time.monotonic() - began >= 0.3
    ((offered,),) = [answer for answer in answers if answer]
    assert offered.keys() == {"transaction_id", "transactional_id", "began_at", "checks"}
    assert offered["transaction_id"] == transaction["transaction_id"]
    assert (offered["transactional_id"], offered["checks"]) == (f"{prefix}a", 1)
    assert api.http.post(f"{URL}/{offered['transaction_id']}:commit").status_code == 200
    assert [record["value"] for record in api.records(topic)] == ["v"]
    assert checked(api, prefix, max_wait_ms=500) == []


def test_other_prefixes_and_more_than_asked_for_wait(api: Api, prefix: str) -> None:
    """An asker gets those of its prefix, at most `max_records`."""
    for number in range(3):
        begun(api, f"{prefix}{number}", check_after_ms=1_000)
    time.sleep(1.1)
    assert checked(api, f"{prefix}x") == []
    first = checked(api, prefix, max_records=2)
    rest = checked(api, prefix)
    assert (len(first), len(rest)) == (2, 1)
    assert {one["transactional_id"] for one in first + rest} == {f"{prefix}{number}" for number in range(3)}


def test_the_time_out_is_fifteen_minutes_unless_one_was_given(api: Api, prefix: str) -> None:
    """With `check_after_ms` the default of `timeout_ms` is 15 minutes; a given one wins."""

    def lasts(**members: Any) -> int:
        began = time.time_ns() // 1_000_000
        ends: int = begun(api, f"{prefix}a", **members)["expires_at"]
        return ends - began

    assert abs(lasts(check_after_ms=1_000) - 900_000) < 10_000
    assert abs(lasts(check_after_ms=1_000, timeout_ms=60_000) - 60_000) < 10_000
    assert abs(lasts() - 60_000) < 10_000


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"check_after_ms": 999}, "/check_after_ms"),
        ({"check_after_ms": 5_001, "timeout_ms": 5_000}, "/check_after_ms"),
        ({"check_after_ms": None}, "/check_after_ms"),
        ({"check_after": 5_000}, "/check_after"),
    ],
)
def test_a_wrong_check_is_refused(api: Api, prefix: str, members: Json, where: str) -> None:
    """`check_after_ms` is 1000 to `timeout_ms`."""
    answer = api.http.post(URL, json={"transactional_id": prefix} | members)
    assert api.refused(answer, 400, "INVALID_REQUEST")["errors"][0]["where"] == where


def test_asking_has_ranges(api: Api) -> None:
    """Out of range, unknown or missing members are 400."""
    for wrong in ({"max_records": 0}, {"max_wait_ms": 60_001}, {"prefix": ""}):
        answer = api.http.post(f"{URL}:check", json={"transactional_id_prefix": "x"} | wrong)
        api.refused(answer, 400, "INVALID_REQUEST")
    api.refused(api.http.post(f"{URL}:check", json={}), 400, "INVALID_REQUEST")


def test_open_transactions_are_listed_by_prefix_and_page(api: Api, prefix: str) -> None:
    """`GET /v1/transactions?state=open&transactional_id_prefix=` lists, in pages."""
    ids = [begun(api, f"{prefix}{number}")["transaction_id"] for number in range(3)]
    ended = begun(api, f"{prefix}z")["transaction_id"]
    api.http.post(f"{URL}/{ended}:abort")
    query: dict[str, Any] = {"state": "open", "transactional_id_prefix": prefix}
    whole = api.http.get(URL, params=query).json()
    assert [one["transaction_id"] for one in whole["transactions"]] == ids
    assert {one["state"] for one in whole["transactions"]} == {"open"}
    first = api.http.get(URL, params=query | {"limit": 2}).json()
    rest = api.http.get(URL, params=query | {"limit": 2, "after": first["next"]}).json()
    assert [one["transaction_id"] for page in (first, rest) for one in page["transactions"]] == ids
    assert "next" not in rest
    api.refused(api.http.get(URL, params={"state": "asleep"}), 400, "INVALID_REQUEST")
    api.refused(api.http.get(URL, params={"prefix": "x"}), 400, "INVALID_REQUEST")


def test_a_prefix_that_no_id_can_have_is_refused(api: Api) -> None:
    """400 with the parameter's name, in the query as in the body."""
    wrong = "a\x1bb"
    problem = api.refused(
        api.http.get("/v1/transactions", params={"transactional_id_prefix": wrong}), 400, "INVALID_REQUEST"
    )
    assert [error["where"] for error in problem["errors"]] == ["transactional_id_prefix"]
    problem = api.refused(
        api.http.post("/v1/transactions:check", json={"transactional_id_prefix": wrong}), 400, "INVALID_REQUEST"
    )
    assert [error["where"] for error in problem["errors"]] == ["/transactional_id_prefix"]
