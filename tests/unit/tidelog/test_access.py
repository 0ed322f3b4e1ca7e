"""``Admin``'s calls about access: what each sends, what it makes of the answer, and which are repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import AccessDecision, AccessToken, Acl, Admin, Caller, NewAccessToken, Quota, Role, TokenSecret
from tidelog.errors import OutcomeUnknown, UnexpectedAnswer, UnknownRole, UnknownToken

TOKEN = {
    "id": "abcd1234",
    "principal": "User:ann",
    "groups": ["Group:shop"],
    "description": "till 3",
    "created_at": 1,
    "secrets": [{"created_at": 1, "expires_at": 9}],
}
ACL = {
    "principal": "User:ann",
    "operation": "Write",
    "resource_type": "topic",
    "resource": "orders",
    "pattern": "prefix",
    "permission": "allow",
}


@pytest.fixture
def admin(gateway: FakeGateway) -> Iterator[Admin]:
    with Admin(gateway.url) as made:
        yield made


def last(gateway: FakeGateway) -> tuple[str, str, dict[str, str], Any]:
    asked = gateway.asked[-1]
    return asked.method, asked.path, asked.query, json.loads(asked.body) if asked.body else None


def test_tokens(gateway: FakeGateway, admin: Admin) -> None:
    """Created, listed page by page, rotated, revoked; the secret is in no ``repr``."""
    gateway.will_answer("POST /v1/access/tokens", {**TOKEN, "token": "tl_abcd1234_secret"}, 201)
    made = admin.create_token("User:ann", groups=["Group:shop"], description="till 3", expires_at=9)
    sent = {"principal": "User:ann", "groups": ["Group:shop"], "description": "till 3", "expires_at": 9}
    assert last(gateway) == ("POST", "/v1/access/tokens", {}, sent)
    assert isinstance(made, NewAccessToken)
    assert (made.token, made.secrets) == ("tl_abcd1234_secret", (TokenSecret(created_at=1, expires_at=9),))
    assert "secret'" not in repr(made)
    assert "tl_" not in repr(made)
    gateway.will_answer("GET /v1/access/tokens", {"tokens": [TOKEN], "next": "on"})
    gateway.will_answer("GET /v1/access/tokens", {"tokens": [{**TOKEN, "id": "efgh5678"}]})
    found = admin.list_tokens("User:ann")
    assert [each.id for each in found] == ["abcd1234", "efgh5678"]
    assert type(found[0]) is AccessToken
    assert last(gateway)[2] == {"principal": "User:ann", "after": "on"}
    gateway.will_answer("POST /v1/access/tokens/abcd1234:rotate", {**TOKEN, "token": "tl_abcd1234_other"})
    assert admin.rotate_token("abcd1234", overlap_ms=0).token == "tl_abcd1234_other"
    assert last(gateway)[3] == {"overlap_ms": 0}
    gateway.will_answer("DELETE /v1/access/tokens/abcd1234", status=204)
    admin.revoke_token("abcd1234")


def test_a_token_is_created_once(gateway: FakeGateway, admin: Admin) -> None:
    """A second try would leave a token that no one knows; a revocation may be repeated."""
    calls: dict[str, Callable[[], object]] = {
        "POST /v1/access/tokens": lambda: admin.create_token("User:ann"),
        "POST .*:rotate": lambda: admin.rotate_token("abcd1234"),
    }
    for pattern, call in calls.items():
        gateway.misbehave(pattern, gateway.lose(done=False))
        with pytest.raises(OutcomeUnknown):
            call()
        assert gateway.count(pattern) == 1
        gateway.asked.clear()
    gateway.misbehave("DELETE", gateway.lose(done=False), gateway.refuse(404, "UNKNOWN_TOKEN"))
    admin.revoke_token("abcd1234")
    gateway.misbehave("DELETE", gateway.refuse(404, "UNKNOWN_TOKEN"), gateway.refuse(404, "UNKNOWN_TOKEN"))
    with pytest.raises(UnknownToken):
        admin.revoke_token("abcd1234")
    admin.revoke_token("abcd1234", missing_ok=True)


def test_roles(gateway: FakeGateway, admin: Admin) -> None:
    """Put, listed, removed."""
    role = {"role": "a/b", "members": ["User:ann", "Group:shop"]}
    gateway.will_answer("PUT", role)
    assert admin.put_role("a/b", ["User:ann", "Group:shop"]) == Role(role="a/b", members=("User:ann", "Group:shop"))
    assert last(gateway) == ("PUT", "/v1/access/roles/a%2Fb", {}, {"members": ["User:ann", "Group:shop"]})
    gateway.will_answer("GET /v1/access/roles", {"roles": [role]})
    assert admin.list_roles()[0].role == "a/b"
    gateway.misbehave("DELETE", gateway.refuse(404, "UNKNOWN_ROLE"), gateway.refuse(404, "UNKNOWN_ROLE"))
    with pytest.raises(UnknownRole):
        admin.delete_role("a/b")
    admin.delete_role("a/b", missing_ok=True)


def test_acls(gateway: FakeGateway, admin: Admin) -> None:
    """Added, found, removed, tried out; removing without saying which is refused here."""
    acl = Acl(principal="User:ann", operation="Write", resource_type="topic", resource="orders", pattern="prefix")
    gateway.will_answer("POST /v1/access/acls", {"acls": [ACL]}, 201)
    assert admin.add_acls([acl]) == [acl]
    assert last(gateway)[3] == {"acls": [ACL]}
    gateway.will_answer("GET /v1/access/acls", {"acls": [ACL], "next": "on"})
    gateway.will_answer("GET /v1/access/acls", {"acls": []})
    assert admin.list_acls(principal="User:ann", permission="allow") == [acl]
    assert last(gateway)[2] == {"principal": "User:ann", "permission": "allow", "after": "on"}
    gateway.will_answer("DELETE /v1/access/acls", {"acls": [ACL]})
    assert admin.delete_acls(resource_type="topic", resource="orders") == [acl]
    assert last(gateway)[2] == {"resource_type": "topic", "resource": "orders"}
    for nothing in ({}, {"principal": None}):
        with pytest.raises(ValueError, match="all would be removed"):
            admin.delete_acls(**nothing)
    assert gateway.count("DELETE") == 1
    gateway.will_answer("POST /v1/access:test", {"allowed": True, "reason": "allow", "acl": ACL})
    decision = admin.test_access("User:ann", "Write", "topic", "orders-eu", groups=["Group:shop"])
    assert decision == AccessDecision(allowed=True, reason="allow", acl=acl)
    assert last(gateway)[3]["groups"] == ["Group:shop"]


def test_quotas(gateway: FakeGateway, admin: Admin) -> None:
    """Set as a whole: what is not given is no limit."""
    stored = {"principal": "*", "produce_bytes_per_s": 1000, "fetch_bytes_per_s": None}
    gateway.will_answer("PUT", stored)
    assert admin.set_quota(Quota(principal="*", produce_bytes_per_s=1000)).produce_bytes_per_s == 1000
    method, path, _, body = last(gateway)
    assert (method, path) == ("PUT", "/v1/access/quotas/%2A")
    assert body["produce_bytes_per_s"] == 1000
    assert body["requests_per_s"] is None
    assert "principal" not in body
    gateway.will_answer("GET /v1/access/quotas/User", {"principal": "User:ann", "connections": 3})
    assert admin.describe_quota("User:ann").connections == 3
    gateway.will_answer("GET /v1/access/quotas$", {"quotas": [stored]})
    assert [each.principal for each in admin.list_quotas()] == ["*"]


def test_who_am_i_and_store_credentials(gateway: FakeGateway, admin: Admin) -> None:
    """The answers become values; secrets are in no ``repr``."""
    gateway.will_answer(
        "GET /v1/whoami",
        {"principal": "User:anonymous", "groups": [], "roles": [], "super_user": True, "authentication": "none",
         "token_id": None, "expires_at": None},
    )  # fmt: skip
    assert admin.whoami() == Caller(principal="User:anonymous", super_user=True)
    vended = {
        "access_key_id": "AKIA",
        "secret_access_key": "hush",
        "session_token": "hushhush",
        "expires_at": 9,
        "endpoint_url": None,
        "region": "eu-central-1",
        "topics": [{"topic": "t", "table_uri": "s3://b/t"}],
    }
    gateway.will_answer("POST /v1/credentials", vended)
    credentials = admin.store_credentials(["t"], access="append", duration_s=1200)
    assert last(gateway)[3] == {"topics": ["t"], "access": "append", "duration_s": 1200}
    assert credentials.topics[0].table_uri == "s3://b/t"
    assert credentials.session_token == "hushhush"
    assert "hush" not in repr(credentials)


def test_an_answer_that_is_none(gateway: FakeGateway, admin: Admin) -> None:
    """Another shape is ``UnexpectedAnswer``, and the error does not repeat the secret that was in it."""
    gateway.will_answer("POST /v1/access/tokens", {"token": "tl_abcd1234_secret"}, 201)
    with pytest.raises(UnexpectedAnswer) as raised:
        admin.create_token("User:ann")
    assert "secret" not in str(raised.value)
