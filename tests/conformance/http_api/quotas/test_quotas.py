"""Quotas: what the API says of them, and what a principal that has used one up is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.http_api import Json
from tests.support.secured import Secured
from tests.support.waiting import until

MEMBERS = (
    "produce_bytes_per_s",
    "fetch_bytes_per_s",
    "requests_per_s",
    "partitions_created_per_minute",
    "connections",
    "event_streams",
)
NOTHING: Json = dict.fromkeys(MEMBERS)


def throttled(answer: httpx.Response, quota: str) -> Json:
    """The problem of a 429, whole."""
    assert answer.status_code == 429, (answer.status_code, answer.text)
    problem: Json = answer.json()
    assert problem["error_code"] == "THROTTLED"
    assert (problem["quota"], problem["retryable"], problem["may_have_happened"]) == (quota, True, False)
    assert problem["retry_after_ms"] >= 1
    assert int(answer.headers["retry-after"]) == -(-problem["retry_after_ms"] // 1000)
    return problem


def produce(client: httpx.Client, topic: str, value: str, **record: Any) -> httpx.Response:
    return client.post(f"/v1/topics/{topic}/records", json={"records": [{"value": value, **record}]})


def test_put_replaces_and_absent_members_are_null(secured: Secured) -> None:
    """PUT, without a principal in its body, answers what GET then says."""
    principal = "User:reporting"
    first = secured.put_quota(principal, requests_per_s=5, connections=10**12)
    assert first == {"principal": principal, **NOTHING, "requests_per_s": 5, "connections": 10**12}
    assert secured.admin.http.get(f"/v1/access/quotas/{principal}").json() == first
    second = secured.put_quota(principal, fetch_bytes_per_s=1, connections=None)
    assert second == {"principal": principal, **NOTHING, "fetch_bytes_per_s": 1}
    assert secured.admin.http.get(f"/v1/access/quotas/{principal}").json() == second


def test_a_principal_without_a_quota_has_nulls(secured: Secured) -> None:
    """GET answers for any principal, and says that nothing limits it."""
    answer = secured.admin.http.get("/v1/access/quotas/User:never")
    assert (answer.status_code, answer.json()) == (200, {"principal": "User:never", **NOTHING})


def test_ids_are_percent_encoded(secured: Secured) -> None:
    """A name may have any characters of an id, a slash too."""
    principal = "User:a/b é"
    answer = secured.admin.http.put("/v1/access/quotas/User%3Aa%2Fb%20%C3%A9", json={"requests_per_s": 7})
    assert answer.json()["principal"] == principal


def test_the_list_is_sorted_and_paged(secured: Secured) -> None:
    """All quotas are found page by page, each once."""
    names = [f"User:page-{number}" for number in range(5)]
    for name in names:
        secured.put_quota(name, requests_per_s=1000)
    found: list[str] = []
    after = ""
    while True:
        page = secured.admin.http.get("/v1/access/quotas", params={"limit": 2, "after": after}).json()
        found += [quota["principal"] for quota in page["quotas"]]
        assert len(page["quotas"]) <= 2
        if "next" not in page:
            break
        after = page["next"]
    assert found == sorted(found)
    assert set(names) <= set(found)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("value", [0, -1, 10**12 + 1, 1.5, "1", True])
def test_numbers_have_their_range(secured: Secured, member: str, value: object) -> None:
    """1 to 10^12 or null; any other value is refused by name."""
    answer = secured.admin.http.put("/v1/access/quotas/User:ranges", json={member: value})
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["errors"][0]["where"] == f"/{member}"


@pytest.mark.parametrize("body", [{"principal": "User:a"}, {"produce_bytes": 1}])
def test_other_members_are_refused(secured: Secured, body: Json) -> None:
    """A typing error never passes silently."""
    answer = secured.admin.http.put("/v1/access/quotas/User:a", json=body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["where"] == f"/{next(iter(body))}"


@pytest.mark.parametrize("principal", ["Group:a", "Role:a", "a", "User:", "**"])
def test_only_users_and_all_others_have_quotas(secured: Secured, principal: str) -> None:
    """A quota of a group would never hold, so it is refused."""
    for answer in (
        secured.admin.http.put(f"/v1/access/quotas/{principal}", json={}),
        secured.admin.http.get(f"/v1/access/quotas/{principal}"),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_REQUEST")


def test_it_needs_cluster_alter(secured: Secured) -> None:
    """A caller without it sees no quotas, and gives itself none."""
    _, user = secured.caller(("Describe", "cluster", "cluster"))
    for answer in (
        user.get("/v1/access/quotas"),
        user.get("/v1/access/quotas/User:a"),
        user.put("/v1/access/quotas/User:a", json={}),
    ):
        assert answer.status_code == 403
        assert (answer.json()["operation"], answer.json()["resource_type"]) == ("Alter", "cluster")


def test_bytes_produced_are_those_of_key_value_and_headers(secured: Secured) -> None:
    """A request passes while the bucket is not in debt, and may bring it there; the refusal says when the next will pass."""
    topic = secured.topic()
    principal, user = secured.caller(("Write", "topic", topic))
    secured.put_quota(principal, produce_bytes_per_s=60_000)
    assert produce(user, topic, "x" * 150_000, key="k" * 100_000, headers={"h": "v" * 49_999}).status_code == 200
    problem = throttled(produce(user, topic, "y"), "produce_bytes_per_s")
    assert 1_000 < problem["retry_after_ms"] <= 4_000
    time.sleep(problem["retry_after_ms"] / 1000)
    assert produce(user, topic, "z").status_code == 200


def test_a_refusal_comes_ahead_of_the_body(secured: Secured) -> None:
    """In debt, a body is not looked at: the refusal is 429, whatever it holds."""
    topic = secured.topic()
    principal, user = secured.caller(("Write", "topic", topic))
    secured.put_quota(principal, produce_bytes_per_s=1_000)
    assert produce(user, topic, "x" * 60_000).status_code == 200
    headers = {"content-type": "application/json"}
    throttled(user.post(f"/v1/topics/{topic}/records", content=b"not JSON", headers=headers), "produce_bytes_per_s")
    throttled(user.post("/v1/records", content=b"not JSON", headers=headers), "produce_bytes_per_s")


def test_bytes_of_several_topics_and_of_transactions_count(secured: Secured) -> None:
    """No way of producing goes past the quota."""
    topic = secured.topic()
    principal, user = secured.caller(("Write", "topic", topic), ("Write", "transactional_id", "job"))
    secured.put_quota(principal, produce_bytes_per_s=10_000)
    body = {"topics": [{"topic": topic, "records": [{"value": "x" * 60_000}]}]}
    assert user.post("/v1/records", json=body).status_code == 200
    throttled(produce(user, topic, "y"), "produce_bytes_per_s")
    time.sleep(5.1)
    begun = user.post("/v1/transactions", json={"transactional_id": "job"}).json()
    staged = user.post(
        f"/v1/topics/{topic}/records",
        json={"records": [{"value": "x" * 60_000}]},
        headers={"tidelog-transaction": begun["transaction_id"]},
    )
    assert staged.status_code == 202, staged.text
    throttled(produce(user, topic, "y"), "produce_bytes_per_s")
    assert user.post(f"/v1/transactions/{begun['transaction_id']}:abort").status_code == 200


def test_bytes_fetched(secured: Secured) -> None:
    """All three ways of reading use one bucket, and each is refused while it is in debt."""
    topic = secured.topic()
    principal, user = secured.caller(("Read", "topic", topic), ("Read", "group", "readers"))
    for _ in range(3):
        assert produce(secured.admin.http, topic, "x" * 50_000).status_code == 200
    secured.put_quota(principal, fetch_bytes_per_s=30_000)
    path = f"/v1/topics/{topic}/partitions/0/records"
    many = {"partitions": [{"topic": topic, "partition": 0, "offset": 0}]}
    poll = {"topics": [topic], "max_wait_ms": 0}
    reads: tuple[Callable[[], httpx.Response], ...] = (
        lambda: user.get(path, params={"offset": 0}),
        lambda: user.post("/v1/fetch", json=many),
        lambda: user.post("/v1/groups/readers/poll", json=poll),
    )
    for read in reads:
        answer = read()
        assert answer.status_code == 200, answer.text
        problem: Json = {}
        for other in reads:
            problem = throttled(other(), "fetch_bytes_per_s")
        assert 1_000 < problem["retry_after_ms"] <= 6_000
        time.sleep(problem["retry_after_ms"] / 1000)


def test_an_event_stream_slows_down_and_is_not_refused(secured: Secured) -> None:
    """A stream over the quota goes on to its end, while other reads of the principal are refused."""
    topic = secured.topic()
    principal, user = secured.caller(("Read", "topic", topic))
    records = [{"value": "x" * 10_000} for _ in range(60)]
    for first in range(0, 60, 20):
        body = {"records": records[first : first + 20]}
        assert secured.admin.http.post(f"/v1/topics/{topic}/records", json=body).status_code == 200
    secured.put_quota(principal, fetch_bytes_per_s=200_000)
    began = time.monotonic()
    with user.stream(
        "GET",
        f"/v1/topics/{topic}/partitions/0/records",
        params={"offset": 0},
        headers={"accept": "text/event-stream"},
    ) as stream:
        assert stream.status_code == 200
        seen = 0
        for line in stream.iter_lines():
            seen += line.startswith("event: record")
            if seen == 60:
                break
    throttled(user.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": 0}), "fetch_bytes_per_s")
    assert time.monotonic() - began < 20


def test_requests(secured: Secured) -> None:
    """A second's worth passes at once, then the rest is told when to come; without the quota all pass."""
    principal, user = secured.caller()
    secured.put_quota(principal, requests_per_s=2)
    answers = [user.get("/v1/whoami")]
    while answers[-1].status_code == 200 and len(answers) < 100:
        answers.append(user.get("/v1/whoami"))
    assert len(answers) > 2
    problem = throttled(answers[-1], "requests_per_s")
    assert problem["retry_after_ms"] <= 1_000
    time.sleep(1.1)
    assert user.get("/v1/whoami").status_code == 200
    secured.put_quota(principal)
    assert all(user.get("/v1/whoami").status_code == 200 for _ in range(20))


def test_unknown_routes_count_too_and_403_goes_first(secured: Secured) -> None:
    """429 goes ahead of 404, and behind what a caller may not know."""
    principal, user = secured.caller()
    secured.put_quota(principal, requests_per_s=1)
    statuses = [user.get("/v1/nothing").status_code for _ in range(5)]
    assert statuses[0] == 404
    assert statuses[-1] == 429
    assert user.get("/v1/topics/secret").status_code == 403


def test_partitions_created(secured: Secured) -> None:
    """Partitions that are added count, in debt no more are created, and settings can be changed."""
    principal, user = secured.caller(("Create", "topic", "*"), ("Alter", "topic", "*"), ("Describe", "topic", "*"))
    name = secured.topic()
    secured.put_quota(principal, partitions_created_per_minute=10)
    more = user.patch(f"/v1/topics/{name}", json={"partition_count": 31})
    assert more.status_code == 200, more.text
    problem = throttled(user.patch(f"/v1/topics/{name}", json={"partition_count": 32}), "partitions_created_per_minute")
    assert 110_000 < problem["retry_after_ms"] <= 120_000
    throttled(user.post("/v1/topics", json={"name": "one-more"}), "partitions_created_per_minute")
    assert user.patch(f"/v1/topics/{name}", json={"config": {"flush.ms": 1}}).status_code == 200


def test_a_topic_that_exists_costs_nothing(secured: Secured) -> None:
    """Repeating a creation uses nothing up."""
    principal, user = secured.caller(("Create", "topic", "*"), ("Describe", "topic", "*"))
    secured.put_quota(principal, partitions_created_per_minute=5)
    body = {"name": f"again-{principal[-12:]}", "partition_count": 5}
    assert [user.post("/v1/topics", json=body).status_code for _ in range(4)] == [201, 200, 200, 200]


def test_a_clone_costs_its_partitions_once(secured: Secured) -> None:
    """Repeating the request for a clone that is made uses nothing up."""
    principal, user = secured.caller(("Create", "topic", "*"), ("Read", "topic", "*"))
    name = secured.topic()
    more = secured.admin.http.patch(f"/v1/topics/{name}", json={"partition_count": 5})
    assert more.status_code == 200, more.text
    secured.put_quota(principal, partitions_created_per_minute=5)
    statuses = [user.post(f"/v1/topics/{name}:clone", json={"name": f"{name}-clone"}).status_code for _ in range(4)]
    assert statuses == [201] * 4


def test_connections(secured: Secured) -> None:
    """The third connection is refused until one of the two ends."""
    principal, user = secured.caller()
    token = user.headers["authorization"].removeprefix("Bearer ")
    secured.put_quota(principal, connections=2)
    clients = [secured.client(token) for _ in range(3)]
    assert [client.get("/v1/whoami").status_code for client in clients[:2]] == [200, 200]
    throttled(clients[2].get("/v1/whoami"), "connections")
    assert clients[0].get("/v1/whoami").status_code == 200
    clients[0].close()
    until(lambda: clients[2].get("/v1/whoami").status_code != 429, 30)
    for client in clients:
        client.close()


def test_event_streams(secured: Secured) -> None:
    """The second stream is refused until the first ends; plain fetches pass."""
    topic = secured.topic()
    principal, user = secured.caller(("Read", "topic", topic))
    secured.put_quota(principal, event_streams=1)
    path, asked = f"/v1/topics/{topic}/partitions/0/records", {"accept": "text/event-stream"}
    with user.stream("GET", path, params={"offset": 0}, headers=asked) as first:
        assert first.status_code == 200
        throttled(user.get(path, params={"offset": 0}, headers=asked), "event_streams")
        assert user.get(path, params={"offset": 0}).status_code == 200

    def is_served() -> bool:
        with user.stream("GET", path, params={"offset": 0}, headers=asked) as again:
            return again.status_code == 200

    until(is_served)


def test_the_quota_of_all_others_is_each_ones_own(secured: Secured) -> None:
    """``*`` holds for each principal without a quota of its own, apart from the others.

    It does not hold for a principal with a quota, even one without limits.
    """
    (_, first), (_, second), (named, third) = secured.caller(), secured.caller(), secured.caller()
    secured.put_quota(named)
    secured.put_quota("*", requests_per_s=3)
    try:
        statuses = [first.get("/v1/whoami").status_code for _ in range(8)]
        assert 429 in statuses
        assert second.get("/v1/whoami").status_code == 200
        assert all(third.get("/v1/whoami").status_code == 200 for _ in range(20))
    finally:
        assert secured.put_quota("*") == {"principal": "*", **NOTHING}
    assert all(first.get("/v1/whoami").status_code == 200 for _ in range(20))
