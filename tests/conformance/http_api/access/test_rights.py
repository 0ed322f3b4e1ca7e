"""Which rights each call needs: every operation of the OpenAPI document, each of its rights missing in turn."""

from __future__ import annotations

import re
import secrets
from typing import Any

import pytest

from tests.support.calls_and_rights import CALLS, NAMES, Call, Right
from tests.support.http_api import Api, Json
from tests.support.secured import Secured

FREE = {
    ("GET", "/v1/topics"),
    ("GET", "/v1/queues"),
    ("GET", "/v1/transactions"),
    ("POST", "/v1/transactions:check"),
    ("GET", "/v1/groups"),
    ("GET", "/v1/lag"),
    ("GET", "/v1/topics:summary"),
    ("POST", "/v1/fetch"),
    ("GET", "/v1/cluster"),
    ("GET", "/v1/whoami"),
    ("POST", "/v1/whoami:test"),
}
"""They need nothing as a whole; what they show and do is tested by itself."""
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}


def filled(value: Any, names: dict[str, str]) -> Any:
    """The value with the names in place of ``{…}``."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, dict):
        return {name: filled(member, names) for name, member in value.items()}
    return [filled(entry, names) for entry in value] if isinstance(value, list) else value


def test_every_operation_is_in_the_matrix(secured: Secured) -> None:
    """An operation without declared rights would be served to every caller, or to none."""
    document = secured.admin.http.get("/openapi.json").json()
    served = {
        (method.upper(), path): described["x-tidelog-needs"]
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    }
    matrix = {(call.method, call.template) for call in CALLS}
    assert set(served) == matrix | FREE | OPEN
    assert {call for call, needs in served.items() if needs == "open"} == OPEN


def test_what_the_path_tells_is_judged_ahead(secured: Secured) -> None:
    """403 by the path comes before 429 and before all that may be wrong: no endpoint judges late what its path names."""
    document = secured.admin.http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        named = [name for name in ("topic", "group", "queue") if f"{{{name}}}" in path]
        for method, described in methods.items():
            judged = {
                need.get("path") for need in described["x-tidelog-needs"] if described["x-tidelog-needs"] != "open"
            }
            assert judged.issuperset(named), (method, path)


def test_every_operation_asks_for_a_credential(secured: Secured) -> None:
    """401 goes before everything that may be wrong with a request."""
    with_none = Api(secured.url)
    for method, template in {(call.method, call.template) for call in CALLS} | FREE:
        answer = with_none.http.request(method, template, content=b"{", headers={"content-type": "no/type"})
        with_none.refused(answer, 401, "UNAUTHENTICATED")
    for method, path in OPEN | {("GET", "/openapi.json"), ("GET", "/docs")}:
        assert with_none.http.request(method, path).status_code == 200
    # The console is files only; a program at its address is told what it is told at any unknown one.
    page = with_none.http.get("/", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    for path in re.findall(r'"(/console/[^"]+)"', page.text):
        assert with_none.http.get(path).status_code == 200
    with_none.refused(with_none.http.get("/"), 401, "UNAUTHENTICATED")
    with_none.http.close()


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.template} {len(call.rights)}")
def test_each_right_is_needed(secured: Secured, call: Call) -> None:
    """With all rights but one the call is refused, and names that one; with all it is not."""
    principal, api = secured.user()
    mark = secrets.token_hex(6)
    names = {name: f"{name}-{mark}" for name in NAMES}
    names |= {"partition": "0", "member": "m", "token": "abcdefgh", "role": f"role-{mark}", "principal": "User:someone"}
    names["scheduled"] = "0f1d2c3b-0000000000"
    names["erasure"] = "e1"
    names["pin"] = "p"
    for topic in ("topic", "other"):
        secured.admin.http.post("/v1/topics", json={"name": names[topic], "config": {"flush.ms": 0}})
    if call.on_queue:
        body = {"topics": [names["topic"]], "dead_letter_topic": names["other"]}
        assert secured.admin.http.put(f"/v1/queues/{names['queue']}", json=body).status_code == 201
    rights = [(operation, kind, filled(name, names)) for operation, kind, name in call.rights]

    def granted(given: list[Right]) -> None:
        secured.forget(principal)
        for right in given:
            secured.allow(principal, *right)

    def made() -> Any:
        if call.in_transaction:
            secured.allow(principal, "Write", "transactional_id", names["tid"])
            begun = api.http.post("/v1/transactions", json={"transactional_id": names["tid"]})
            assert begun.status_code == 201, begun.text
            names["transaction"] = begun.json()["transaction_id"]
        return filled({"path": call.template + call.path, "body": call.body, "headers": call.headers}, names)

    for missing in rights:
        asked = made()
        granted([right for right in rights if right != missing])
        answer = api.http.request(call.method, asked["path"], json=asked["body"], headers=asked["headers"])
        problem = api.refused(answer, 403, "UNAUTHORIZED")
        assert (problem["operation"], problem["resource_type"], problem["resource"]) == missing
    asked = made()
    granted(rights)
    answer = api.http.request(call.method, asked["path"], json=asked["body"], headers=asked["headers"])
    assert answer.status_code not in (401, 403), answer.text


@pytest.mark.parametrize("call", [one for one in CALLS if "{topic}" in one.template or "{group}" in one.template])
def test_a_refusal_does_not_tell_what_exists(secured: Secured, call: Call) -> None:
    """The same 403 for a topic or group that exists and for one that does not, whatever else is wrong with the request."""
    _, api = secured.user()
    topic, group = secured.admin.topic(), f"g-{secrets.token_hex(6)}"
    secured.admin.http.put(
        f"/v1/groups/{group}/offsets", json={"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    )
    answers: list[Json] = []
    for names in ({"topic": topic, "group": group}, {"topic": topic[::-1], "group": group[::-1]}):
        path = filled(call.template, names | {"partition": "nine", "member": "m"})
        answer = api.http.request(call.method, path, content=b"{", headers={"content-type": "no/type"})
        problem = api.refused(answer, 403, "UNAUTHORIZED")
        told = {name: problem[name] for name in problem.keys() - {"request_id", "resource", "detail"}}
        answers.append(told | {"detail": problem["detail"].replace(problem["resource"], "")})
    assert answers[0] == answers[1]


def test_a_name_that_no_topic_can_have_is_refused_alike(secured: Secured) -> None:
    """The path is judged as it was sent: an encoded slash is part of the name, and reaches no other topic."""
    principal, api = secured.user()
    secured.allow(principal, "Read", "topic", "a")
    for sent, name in (("a%2Frecords", "a/records"), ("b%00", "b\0"), ("%61b", "ab"), ("a" * 300, "a" * 300)):
        problem = api.refused(api.http.get(f"/v1/topics/{sent}/partitions/0/records?offset=0"), 403, "UNAUTHORIZED")
        assert problem["resource"] == name
    api.refused(api.http.get("/v1/topics/%61/partitions/0/records?offset=0"), 404, "UNKNOWN_TOPIC")


def test_who_asks_comes_before_what_is_wrong(secured: Secured) -> None:
    """401 before anything else; 403 by the path before every other refusal; only then what else is wrong."""
    principal, api = secured.user()
    stranger = Api(secured.url)
    wrong = {"tidelog-nonsense": "x", "sec-fetch-site": "cross-site"}
    for path in ("/v1/topics/%ff", "/v1/nothing", "/v1/topics/a?x=1", "/v1/topics/a"):
        stranger.refused(stranger.http.get(path, headers=wrong), 401, "UNAUTHENTICATED")
    for path in ("/v1/topics/a?x=1", "/v1/topics/a", "/v1/topics/a/partitions/0/records"):
        api.refused(api.http.get(path, headers=wrong | {"accept": "no/type"}), 403, "UNAUTHORIZED")
    api.refused(api.http.get("/v1/topics/%ff"), 400, "INVALID_REQUEST")
    api.refused(api.http.get("/v1/nothing"), 404, "NOT_FOUND")
    api.refused(api.http.put("/v1/topics/a"), 405, "METHOD_NOT_ALLOWED")
    secured.allow(principal, "Describe", "topic", "a")
    api.refused(api.http.get("/v1/topics/a", headers=wrong), 400, "INVALID_REQUEST")
    stranger.http.close()
