"""ACLs: what they allow and deny, and the calls about them."""

from __future__ import annotations

import secrets

import pytest

from tests.support.http_api import Json
from tests.support.secured import Secured, acl

DEFAULTS = {"pattern": "literal", "permission": "allow"}


def answer_of(
    secured: Secured, principal: str, operation: str, resource: str, kind: str = "topic", *groups: str
) -> Json:
    body = acl(principal, operation, kind, resource) | {"groups": list(groups)}
    answer = secured.admin.http.post("/v1/access:test", json=body)
    assert answer.status_code == 200, answer.text
    told: Json = answer.json()
    return told


def user() -> str:
    return f"User:{secrets.token_hex(6)}"


def test_an_acl_is_there_once(secured: Secured) -> None:
    """201 when any is new, 200 when all were there; defaults are filled in."""
    principal = user()
    entries = [acl(principal, "Read", "topic", "a"), acl(principal, "Write", "topic", "a")]
    for status, sent in ((201, entries[:1]), (201, entries), (200, entries), (200, entries[1:])):
        answer = secured.admin.http.post("/v1/access/acls", json={"acls": sent})
        assert (answer.status_code, answer.json()) == (status, {"acls": [entry | DEFAULTS for entry in sent]})
    listed = secured.admin.http.get("/v1/access/acls", params={"principal": principal}).json()
    assert listed == {"acls": [entry | DEFAULTS for entry in entries]}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"principal": "alice"}, "principal"),
        ({"principal": "User:"}, "principal"),
        ({"operation": "read"}, "operation"),
        ({"operation": "ClusterAction"}, "operation"),
        ({"resource_type": "Topic"}, "resource_type"),
        ({"resource": ""}, "resource"),
        ({"resource": "a/b"}, "resource"),
        ({"resource": "*", "pattern": "prefix"}, "resource"),
        ({"resource_type": "cluster", "resource": "kafka-cluster"}, "resource"),
        ({"resource_type": "cluster", "resource": "cluster", "pattern": "prefix"}, "resource"),
        ({"resource_type": "group", "resource": "a\n"}, "resource"),
        ({"pattern": "prefixed"}, "pattern"),
        ({"permission": "ALLOW"}, "permission"),
        ({"host": "*"}, "host"),
        ({"pattern": None}, "pattern"),
    ],
)
def test_one_acl_that_can_not_be_refuses_all(secured: Secured, change: Json, where: str) -> None:
    """A typing error in a right never passes silently, and none of its request is stored."""
    principal = user()
    good = acl(principal, "Read", "topic", "a")
    answer = secured.admin.http.post("/v1/access/acls", json={"acls": [good, good | change]})
    problem = secured.admin.refused(answer, 400, "INVALID_REQUEST")
    assert [error["where"] for error in problem["errors"]] == [f"/acls/1/{where}"]
    assert not secured.admin.http.get("/v1/access/acls", params={"principal": principal}).json()["acls"]


@pytest.mark.parametrize("count", [0, 1001])
def test_one_to_a_thousand_acls_go_in_a_request(secured: Secured, count: int) -> None:
    """A request, and so a commit, has a bound."""
    acls = [acl("User:many", "Read", "topic", f"t{index}") for index in range(count)]
    secured.admin.refused(secured.admin.http.post("/v1/access/acls", json={"acls": acls}), 400, "INVALID_REQUEST")


def test_acls_are_listed_in_pages_and_deleted_by_their_members(secured: Secured) -> None:
    """Each once, also where a page ends amid the ACLs of one resource; without a member nothing is deleted."""
    principal = user()
    entries = [
        acl(principal, operation, "topic", f"t{index:03d}", permission=permission)
        for index in range(100)
        for operation in ("Read", "Write")
        for permission in ("allow", "deny")
    ]
    assert secured.admin.http.post("/v1/access/acls", json={"acls": entries}).status_code == 201
    found: list[Json] = []
    after: dict[str, str] = {}
    while True:
        page = secured.admin.http.get("/v1/access/acls", params={"principal": principal, "limit": 7, **after}).json()
        assert len(page["acls"]) <= 7
        found += page["acls"]
        if "next" not in page:
            break
        after = {"after": page["next"]}
    assert sorted(found, key=str) == sorted(({"pattern": "literal"} | entry for entry in entries), key=str)
    asked = {"principal": principal, "operation": "Write", "permission": "deny"}
    gone = secured.admin.http.delete("/v1/access/acls", params=asked).json()["acls"]
    assert len(gone) == 100
    assert all(entry.items() >= asked.items() for entry in gone)
    assert secured.admin.http.delete("/v1/access/acls", params=asked).json() == {"acls": []}
    left = secured.admin.http.get("/v1/access/acls", params={"principal": principal}).json()["acls"]
    assert len(left) == 300
    secured.forget(principal)
    secured.admin.refused(secured.admin.http.delete("/v1/access/acls"), 400, "INVALID_REQUEST")
    secured.admin.refused(secured.admin.http.delete("/v1/access/acls?host=a"), 400, "INVALID_REQUEST")
    secured.admin.refused(secured.admin.http.get("/v1/access/acls?after=%21"), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    ("entries", "operation", "resource", "allowed"),
    [
        ([], "Read", "a", None),
        ([("Read", "a", "literal", "allow")], "Read", "a", True),
        ([("Read", "a", "literal", "allow")], "Read", "ab", None),
        ([("Read", "a", "literal", "allow")], "Write", "a", None),
        ([("Read", "a", "prefix", "allow")], "Read", "a", True),
        ([("Read", "a", "prefix", "allow")], "Read", "ab", True),
        ([("Read", "ab", "prefix", "allow")], "Read", "a", None),
        ([("Read", "b", "prefix", "allow")], "Read", "ab", None),
        ([("Read", "*", "literal", "allow")], "Read", "anything", True),
        ([("All", "a", "literal", "allow")], "Alter", "a", True),
        ([("All", "a", "literal", "allow")], "Describe", "a", True),
        ([("Read", "a", "prefix", "allow"), ("Read", "ab", "literal", "deny")], "Read", "ab", False),
        ([("Read", "a", "prefix", "allow"), ("Read", "ab", "literal", "deny")], "Read", "abc", True),
        ([("Read", "ab", "literal", "allow"), ("Read", "a", "prefix", "deny")], "Read", "ab", False),
        ([("Read", "ab", "literal", "allow"), ("Read", "*", "literal", "deny")], "Read", "ab", False),
        ([("Read", "a", "literal", "allow"), ("All", "a", "literal", "deny")], "Read", "a", False),
        ([("All", "a", "literal", "allow"), ("Write", "a", "literal", "deny")], "Write", "a", False),
        ([("All", "a", "literal", "allow"), ("Write", "a", "literal", "deny")], "Read", "a", True),
        ([("Read", "a", "literal", "allow")], "Describe", "a", True),
        ([("Write", "a", "literal", "allow")], "Describe", "a", True),
        ([("Delete", "a", "literal", "allow")], "Describe", "a", True),
        ([("Alter", "a", "literal", "allow")], "Describe", "a", True),
        ([("Create", "a", "literal", "allow")], "Describe", "a", None),
        ([("Describe", "a", "literal", "allow")], "Read", "a", None),
        ([("Read", "a", "literal", "allow"), ("Describe", "a", "literal", "deny")], "Describe", "a", False),
        ([("Read", "a", "literal", "allow"), ("Describe", "a", "literal", "deny")], "Read", "a", True),
        ([("Describe", "a", "literal", "allow"), ("Read", "a", "literal", "deny")], "Describe", "a", True),
        ([("Read", "*", "literal", "allow")], "Read", "__audit", None),
        ([("Read", "_", "prefix", "allow")], "Read", "__audit", None),
        ([("Read", "_", "prefix", "allow")], "Read", "_a", True),
        ([("Read", "__", "prefix", "allow")], "Read", "__audit", True),
        ([("Read", "__audit", "literal", "allow")], "Read", "__audit", True),
        ([("Read", "__audit", "literal", "allow"), ("Read", "*", "literal", "deny")], "Read", "__audit", True),
    ],
)
def test_what_follows_from_acls(
    secured: Secured, entries: list[tuple[str, str, str, str]], operation: str, resource: str, allowed: bool | None
) -> None:
    """A deny wins; None: nothing is said, so it is not allowed."""
    principal = user()
    for given, name, pattern, permission in entries:
        secured.allow(principal, given, "topic", name, pattern=pattern, permission=permission)
    told = answer_of(secured, principal, operation, resource)
    assert told["allowed"] == bool(allowed)
    assert told["reason"] == {None: "default", True: "allow", False: "deny"}[allowed]
    assert (told["acl"] is None) == (allowed is None)
    if told["acl"] is not None:
        assert told["acl"]["permission"] == told["reason"]
        assert told["acl"]["principal"] == principal


@pytest.mark.parametrize("kind", ["topic", "group", "transactional_id"])
def test_types_and_principals_are_apart(secured: Secured, kind: str) -> None:
    """An ACL of another type, user or group says nothing; one of a group or role of the caller's, or of all, does."""
    principal, other = user(), user()
    name = principal[5:]
    secured.allow(principal, "Read", kind, "mine")
    for one in {"topic", "group", "transactional_id"} - {kind}:
        assert answer_of(secured, principal, "Read", "mine", one)["reason"] == "default"
    assert answer_of(secured, other, "Read", "mine", kind)["reason"] == "default"
    assert answer_of(secured, f"Group:{name}", "Read", "mine", kind)["reason"] == "default"
    secured.allow(f"Group:{name}", "Write", kind, "mine")
    assert answer_of(secured, other, "Write", "mine", kind)["reason"] == "default"
    assert answer_of(secured, other, "Write", "mine", kind, f"Group:{name}")["reason"] == "allow"
    secured.allow("*", "Write", kind, name)
    assert answer_of(secured, user(), "Write", name, kind)["acl"]["principal"] == "*"
    secured.allow(f"Group:{name}", "Read", kind, "mine", permission="deny")
    assert answer_of(secured, principal, "Read", "mine", kind, f"Group:{name}")["reason"] == "deny"


def test_super_users_are_told_so(secured: Secured) -> None:
    """No ACL decides for them, and the answer says so."""
    for principal in ("User:root", "User:bootstrap"):
        told = answer_of(secured, principal, "Alter", "cluster", "cluster")
        assert told == {"allowed": True, "reason": "super_user", "acl": None}


def test_reserved_names_are_out_of_reach_of_everyday_rights(secured: Secured) -> None:
    """A caller with the right to make any topic may still make none of Tidelog's own."""
    principal, api = secured.user()
    secured.allow(principal, "All", "topic", "*")
    api.refused(api.http.post("/v1/topics", json={"name": f"__{principal[5:]}"}), 403, "UNAUTHORIZED")
    assert api.http.post("/v1/topics", json={"name": principal[5:]}).status_code == 201
