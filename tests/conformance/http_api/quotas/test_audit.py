"""The audit topic: which callers may do what with it, and which events are its records within 10 seconds."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http_api import Json
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until

MEMBERS = {
    *("time", "kind", "principal", "operation", "resource_type", "resource"),
    *("method", "route", "request_id", "source", "count"),
}
SOON_SECONDS = 10


def event_of(secured: Secured, **members: Any) -> Json:
    """The one event with these members, within 10 seconds."""
    (event,) = until(lambda: secured.events(**members), SOON_SECONDS)
    assert event.keys() == MEMBERS
    return event


def test_the_topic_is_there_and_no_caller_creates_writes_or_deletes_it(secured: Secured) -> None:
    """Not the super user either, nor one whom ACLs allow all."""
    _, user = secured.caller(("All", "topic", "__audit"))
    record = {"records": [{"value": "forged"}]}
    calls: list[tuple[str, Callable[[httpx.Client], httpx.Response]]] = [
        ("Create", lambda client: client.post("/v1/topics", json={"name": "__audit"})),
        ("Write", lambda client: client.post("/v1/topics/__audit/records", json=record)),
        ("Write", lambda client: client.post("/v1/topics/__audit/partitions/0/records", json=record)),
        ("Write", lambda client: client.post("/v1/records", json={"topics": [{"topic": "__audit", **record}]})),
        ("Delete", lambda client: client.delete("/v1/topics/__audit")),
        (
            "Delete",
            lambda client: client.post(
                "/v1/topics/__audit:delete-records", json={"before": [{"partition": 0, "offset": -1}]}
            ),
        ),
    ]
    for client in (secured.admin.http, user):
        assert client.get("/v1/topics/__audit").status_code == 200
        for operation, call in calls:
            answer = call(client)
            assert answer.status_code == 403, (operation, answer.text)
            problem = answer.json()
            named = (problem["operation"], problem["resource_type"], problem["resource"])
            assert named == (operation, "topic", "__audit")


def test_only_patterns_in_the_reserved_names_let_read_it(secured: Secured) -> None:
    """A right to all topics is none to this one: only an ACL that names it lets a caller read what others did."""
    path = "/v1/topics/__audit/partitions/0/records"
    _, everything = secured.caller(("Read", "topic", "*"))
    assert everything.get(path, params={"offset": "earliest"}).status_code == 403
    _, auditor = secured.caller(("Read", "topic", "__audit"))
    assert auditor.get(path, params={"offset": "earliest"}).status_code == 200


def test_what_would_make_it_unwritable_is_not_altered(secured: Secured) -> None:
    """How long events are kept can be set; what would refuse or rewrite them can not."""
    kept = secured.admin.http.patch("/v1/topics/__audit", json={"config": {"retention.ms": 86_400_000}})
    assert kept.status_code == 200
    for name, value in (("max.message.bytes", 1), ("cleanup.policy", "compact")):
        answer = secured.admin.http.patch("/v1/topics/__audit", json={"config": {name: value}})
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_CONFIG")
        assert answer.json()["errors"][0]["where"] == f"/config/{name}"


def test_a_denial(secured: Secured) -> None:
    """A 403 becomes one event with all members, by the template of the route."""
    principal, user = secured.caller()
    before = int(time.time() * 1000) - 1
    user.get("/v1/topics/secret%2dtopic/offsets", headers={"x-request-id": "not-this"})
    answer = user.get("/v1/topics/secret/partitions/0/records", params={"offset": 0}, headers={"x-request-id": "den-1"})
    assert answer.status_code == 403
    event = event_of(secured, request_id="den-1")
    assert before <= event.pop("time") <= int(time.time() * 1000)
    assert event == {
        "kind": "denial",
        "principal": principal,
        "operation": "Read",
        "resource_type": "topic",
        "resource": "secret",
        "method": "GET",
        "route": "/v1/topics/{topic}/partitions/{partition}/records",
        "request_id": "den-1",
        "source": "127.0.0.1",
        "count": 1,
    }


def test_denials_inside_an_answer_and_by_a_body(secured: Secured) -> None:
    """A right that is missing for a part of an answer is recorded once, one that a body needs too."""
    topic = secured.topic()
    principal, user = secured.caller(("Read", "topic", topic))
    wanted = [{"topic": name, "partition": number, "offset": 0} for name in (topic, "other") for number in (0, 1)]
    assert user.post("/v1/fetch", json={"partitions": wanted}, headers={"x-request-id": "den-2"}).status_code == 200
    event = event_of(secured, request_id="den-2")
    assert (event["kind"], event["principal"], event["resource"]) == ("denial", principal, "other")
    assert user.post("/v1/topics", json={"name": "mine"}, headers={"x-request-id": "den-3"}).status_code == 403
    event = event_of(secured, request_id="den-3")
    assert (event["operation"], event["resource"], event["route"]) == ("Create", "mine", "/v1/topics")


@pytest.mark.parametrize(
    ("method", "path", "route", "body", "right"),
    [
        ("POST", "/v1/topics", "/v1/topics", {"name": "audited"}, ("Create", "topic", "audited")),
        (
            "PATCH",
            "/v1/topics/audited",
            "/v1/topics/{topic}",
            {"config": {"flush.ms": 1}},
            ("Alter", "topic", "audited"),
        ),
        (
            "POST",
            "/v1/topics/audited:delete-records",
            "/v1/topics/{topic}:delete-records",
            {"before": [{"partition": 0, "offset": -1}]},
            ("Delete", "topic", "audited"),
        ),
        ("DELETE", "/v1/topics/audited", "/v1/topics/{topic}", None, ("Delete", "topic", "audited")),
        (
            "PUT",
            "/v1/access/roles/audited",
            "/v1/access/roles/{role}",
            {"members": []},
            ("Alter", "cluster", "cluster"),
        ),
        (
            "PUT",
            "/v1/access/quotas/User%3Aaudited",
            "/v1/access/quotas/{principal}",
            {},
            ("Alter", "cluster", "cluster"),
        ),
    ],
)
def test_administration(
    secured: Secured, method: str, path: str, route: str, body: Json | None, right: tuple[str, str, str]
) -> None:
    """A change of topics, groups or access becomes an event with the right that it took."""
    identity = f"adm-{method}-{route}"
    answer = secured.admin.http.request(method, path, headers={"x-request-id": identity}, json=body)
    assert answer.is_success, answer.text
    event = event_of(secured, request_id=identity)
    assert (event["kind"], event["principal"]) == ("administration", "User:bootstrap")
    assert (event["operation"], event["resource_type"], event["resource"]) == right
    assert (event["method"], event["route"], event["count"]) == (method, route, 1)


def test_to_end_what_is_anothers_is_administration(secured: Secured) -> None:
    """Cluster Alter aborts another's transaction and removes another's member: each is an event. Ending one's own is none."""
    topic, group, name = secured.topic(), f"g-{secrets.token_hex(4)}", f"x-{secrets.token_hex(4)}"
    rights = (("Write", "transactional_id", name), ("Read", "group", group), ("Read", "topic", topic))
    _, user = secured.caller(*rights)
    principal, cleaner = secured.caller(("Alter", "cluster", "cluster"), *rights)

    def begun(client: httpx.Client) -> list[tuple[str, str]]:
        transaction = client.post("/v1/transactions", json={"transactional_id": name}).json()["transaction_id"]
        member = client.post(f"/v1/groups/{group}/members", json={"topics": [topic]}).json()["member_id"]
        return [
            ("POST", f"/v1/transactions/{transaction}:abort"),
            ("DELETE", f"/v1/groups/{group}/members/{member}"),
        ]

    for whose in (cleaner, user):
        for number, (method, path) in enumerate(begun(whose)):
            own = "own" if whose is cleaner else "anothers"
            answer = cleaner.request(method, path, headers={"x-request-id": f"{own}-{number}"})
            assert answer.is_success, answer.text
    templates = ("/v1/transactions/{transaction}:abort", "/v1/groups/{group}/members/{member}")
    for number, template in enumerate(templates):
        event = event_of(secured, request_id=f"anothers-{number}")
        assert (event["kind"], event["principal"], event["route"]) == ("administration", principal, template)
        assert (event["operation"], event["resource_type"], event["resource"]) == ("Alter", "cluster", "cluster")
        assert secured.events(request_id=f"own-{number}") == []


def test_what_changes_nothing_is_no_administration(secured: Secured) -> None:
    """Questions, lists and refused requests leave no such event."""
    question = {"principal": "User:a", "operation": "Read", "resource_type": "topic", "resource": "t"}
    quiet = {"x-request-id": "quiet"}
    assert secured.admin.http.post("/v1/access:test", json=question, headers=quiet).status_code == 200
    assert secured.admin.http.get("/v1/access/acls", headers=quiet).status_code == 200
    assert secured.admin.http.post("/v1/topics", json={"name": "a b"}, headers=quiet).status_code == 400
    secured.admin.http.put("/v1/access/roles/last", json={"members": []}, headers={"x-request-id": "behind-quiet"})
    event_of(secured, request_id="behind-quiet")
    assert secured.events(request_id="quiet") == []


def test_failed_logins_of_one_source_are_one_event_in_ten_seconds(secured: Secured) -> None:
    """Guessing tokens fills no log: one event counts them, and is there within 10 seconds."""
    known = len(secured.events(kind="failed_login"))
    assert known == 0, "the tests before made one"
    headers = {"authorization": "Bearer tl_00000000_" + "A" * 43}
    with httpx.Client(base_url=secured.url, trust_env=False) as stranger:
        for _ in range(25):
            assert stranger.get("/v1/topics/secret/offsets", headers=headers).status_code == 401
        assert stranger.get("/v1/whoami").status_code == 401
    began = time.monotonic()
    event = event_of(secured, kind="failed_login")
    assert time.monotonic() - began < SOON_SECONDS
    assert event["count"] == 26
    assert (event["principal"], event["operation"], event["resource"]) == (None, None, None)
    assert (event["source"], event["method"]) == ("127.0.0.1", "GET")


def test_no_token_is_in_any_event(secured: Secured) -> None:
    """A reader of the events learns no credential."""
    assert "tl_" not in str(secured.events())
    assert "Bearer" not in str(secured.events())


def test_audit_off_makes_no_topic(tmp_path: Path) -> None:
    """The setting holds: nothing is made, nothing recorded."""
    with secured_gateway(tmp_path, "--audit", "off") as (secured, _):
        secured.topic()
        assert secured.admin.http.get("/v1/topics/__audit").status_code == 404


def test_with_audit_required_administration_is_recorded_first(tmp_path: Path) -> None:
    """When the answer comes, the event is in the log already."""
    with secured_gateway(tmp_path, "--audit", "required") as (secured, _):
        answer = secured.admin.http.post("/v1/topics", json={"name": "first"}, headers={"x-request-id": "req"})
        assert answer.status_code == 201
        (event,) = secured.events(request_id="req")
        assert (event["operation"], event["resource_type"], event["resource"]) == ("Create", "topic", "first")
