"""What a caller learns of its own rights (docs/http-api.md section 10.1)."""

from __future__ import annotations

import secrets

from tests.support.http_api import Json
from tests.support.secured import Secured


def test_a_caller_asks_for_its_own_rights(secured: Secured) -> None:
    """As calls are judged: by its groups too, a deny wins, a change holds at once; what is no right is 400."""
    principal, api = secured.user("Group:askers")
    topic = f"t-{secrets.token_hex(4)}"
    asked = [
        {"operation": operation, "resource_type": kind, "resource": resource}
        for operation, kind, resource in [
            ("Read", "topic", topic),
            ("Describe", "topic", topic),
            ("Delete", "topic", topic),
            ("Alter", "cluster", "cluster"),
            ("Alter", "group", "a/b"),
        ]
    ]

    def allowed() -> list[bool]:
        answer = api.http.post("/v1/whoami:test", json={"rights": asked})
        assert answer.status_code == 200, answer.text
        found: list[bool] = answer.json()["allowed"]
        return found

    assert allowed() == [False] * 5
    secured.allow("Group:askers", "Read", "topic", topic)
    secured.allow(principal, "Alter", "group", "a/", pattern="prefix")
    assert allowed() == [True, True, False, False, True]
    secured.allow(principal, "Read", "topic", topic, permission="deny")
    assert allowed() == [False, True, False, False, True]
    assert secured.admin.http.post("/v1/whoami:test", json={"rights": asked}).json() == {"allowed": [True] * 5}
    odd: list[Json] = [
        {},
        {"rights": []},
        {"rights": [asked[0] | {"principal": principal}]},
        {"rights": [asked[0] | {"operation": "x"}]},
    ]
    for body in odd:
        api.refused(api.http.post("/v1/whoami:test", json=body), 400, "INVALID_REQUEST")


def test_names_may_be_as_long_as_their_resources(secured: Secured) -> None:
    """To ask for a right, one's own or another's, and to give it; one character more is 400."""
    longest = {"topic": "t" * 249, "group": "g" * 255, "transactional_id": "i" * 255, "subject": "\u00e9" * 1000}
    principal, api = secured.user()
    for kind, name in longest.items():
        right = {"operation": "Read", "resource_type": kind, "resource": name}
        secured.allow(principal, "Read", kind, name)
        answer = api.http.post("/v1/whoami:test", json={"rights": [right]})
        assert answer.json() == {"allowed": [True]}, (kind, answer.text)
        found = secured.admin.http.post("/v1/access:test", json={"principal": principal, **right})
        assert found.json()["allowed"], (kind, found.text)
        longer = right | {"resource": name + name[0]}
        api.refused(api.http.post("/v1/whoami:test", json={"rights": [longer]}), 400, "INVALID_REQUEST")
        wanted = {"principal": principal, **longer}
        api.refused(secured.admin.http.post("/v1/access:test", json=wanted), 400, "INVALID_REQUEST")
        api.refused(secured.admin.http.post("/v1/access/acls", json={"acls": [wanted]}), 400, "INVALID_REQUEST")
