"""The principal of a caller: credentials, the one 401, tokens and roles."""

from __future__ import annotations

import secrets
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.gateway_process import running_gateway
from tests.support.http_api import Api, Json
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until

DAY_MS = 86_400_000


def status_of(secured: Secured, token: str) -> int:
    return httpx.get(f"{secured.url}/v1/whoami", headers={"authorization": f"Bearer {token}"}).status_code


def expiry_of(secret: Json) -> int:
    expires_at: int = secret["expires_at"]
    return expires_at


def wrong_credentials(secured: Secured) -> list[list[tuple[str, str]]]:
    token = secured.token("User:someone")
    revoked = secured.token("User:someone")
    assert secured.admin.http.delete(f"/v1/access/tokens/{revoked['id']}").status_code == 204
    expired = secured.token("User:someone", expires_at=int(time.time() * 1000) + 1_500)
    time.sleep(1.6)
    good, (head, name, secret) = token["token"], token["token"].split("_", 2)
    other = ("A" if secret[0] != "A" else "B") + secret[1:]
    values = [
        "", "Bearer", good, f"Basic {good}", f"Token {good}", f"Bearer {good}x", f"Bearer {good} x", f"Bearer{good}",
        f"Bearer {head}_{name}_{other}", f"Bearer {head}_{name[:-1]}_{secret}", f"Bearer {head}_{name}X_{secret}",
        f"Bearer tl_bootstrap_{secret}", f"Bearer {revoked['token']}", f"Bearer {expired['token']}",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", f"Bearer {'a' * 9_000}", f"Bearer {good},{good}", "Bearer \u00e9",
    ]  # fmt: skip
    pairs = [[("authorization", value)] for value in values]
    return [
        [],
        *pairs,
        [("authorization", f"Bearer {good}")] * 2,
        [("authorization", "Basic x"), ("authorization", good)],
    ]


def test_there_is_one_answer_to_every_wrong_credential(secured: Secured) -> None:
    """The same bytes but for the request id, so that no caller learns which ids exist, have ended or were near."""
    bodies: set[bytes] = set()
    heads: set[tuple[Any, ...]] = set()
    with httpx.Client(base_url=secured.url, trust_env=False) as http:
        for headers in wrong_credentials(secured):
            encoded = [(name.encode(), value.encode()) for name, value in headers]
            answer = http.get("/v1/topics", headers=[*encoded, (b"x-request-id", b"the-same")])
            assert answer.status_code == 401, headers
            bodies.add(answer.content)
            heads.add(tuple(sorted((name, value) for name, value in answer.headers.items() if name != "date")))
    assert len(bodies) == 1
    assert len(heads) == 1
    (head,) = heads
    assert ("www-authenticate", 'Bearer error="invalid_token"') in head
    api = Api(secured.url)
    problem = api.refused(api.http.get("/v1/nothing"), 401, "UNAUTHENTICATED")
    assert not problem["may_have_happened"]
    api.http.close()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "beARer"])
def test_the_scheme_has_any_case(secured: Secured, scheme: str) -> None:
    """RFC 9110: schemes are case-insensitive."""
    token = secured.token("User:someone")["token"]
    answer = httpx.get(f"{secured.url}/v1/whoami", headers={"Authorization": f"{scheme} {token}"})
    assert answer.json()["principal"] == "User:someone"


def test_a_credential_in_a_trailer_is_none(secured: Secured) -> None:
    """Trailers come behind the body, and a client must show its credential before the body."""
    token = secured.token("User:someone")["token"]
    where = urlsplit(secured.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=10) as wire:
        wire.sendall(
            b"POST /v1/fetch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
            b'Trailer: authorization\r\nConnection: close\r\n\r\n11\r\n{"partitions":[]}\r\n0\r\n'
            b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
        )
        assert wire.recv(1000).startswith(b"HTTP/1.1 401 ")


def test_a_hop_of_a_clients_own_is_refused(secured: Secured) -> None:
    """Only gateways vouch for others."""
    secured.admin.refused(secured.admin.http.get("/v1/topics", headers={"tidelog-hop": "x"}), 400, "INVALID_REQUEST")
    api = Api(secured.url)
    api.refused(api.http.get("/v1/topics", headers={"tidelog-hop": "x"}), 401, "UNAUTHENTICATED")
    api.http.close()


def test_whoami_says_who_and_by_what(secured: Secured) -> None:
    """The caller as the gateway judges it, with the roles that it has by its groups."""
    role = f"r-{secrets.token_hex(4)}"
    group = f"Group:g-{role}"
    made = secured.token("User:alice", group, "Group:z")
    assert secured.admin.http.put(f"/v1/access/roles/{role}", json={"members": ["User:x", group]}).status_code == 200
    assert secured.with_token(made["token"]).http.get("/v1/whoami").json() == {
        "principal": "User:alice",
        "groups": [group, "Group:z"],
        "roles": [f"Role:{role}"],
        "super_user": False,
        "authentication": "token",
        "token_id": made["id"],
        "expires_at": made["secrets"][0]["expires_at"],
    }
    me = secured.admin.http.get("/v1/whoami").json()
    assert (me["principal"], me["super_user"], me["token_id"], me["expires_at"]) == (
        "User:bootstrap",
        True,
        "bootstrap",
        None,
    )


@pytest.mark.parametrize("principal", ["User:root", "User:toor"])
def test_super_users_may_do_all(secured: Secured, principal: str) -> None:
    """Whatever an ACL denies, so that no caller locks the last super user out."""
    secured.allow(principal, "All", "topic", "*", permission="deny")
    api = secured.with_token(secured.token(principal)["token"])
    assert api.http.get("/v1/whoami").json()["super_user"]
    topic = api.topic()
    assert api.produce(topic, {"value": "v"}).status_code == 200
    assert api.http.get("/v1/access/tokens").status_code == 200


def test_a_token_is_shown_once(secured: Secured) -> None:
    """By the answer that made it, which no cache may keep, and never again."""
    body = {"principal": "User:a b/c", "groups": ["Group:x"], "description": "for a test"}
    before_ms = int(time.time() * 1000)
    answer = secured.admin.http.post("/v1/access/tokens", json=body)
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    head, token_id, secret = made["token"].split("_", 2)
    assert (head, token_id, len(secret)) == ("tl", made["id"], 43)
    assert 8 <= len(token_id) <= 32
    assert token_id.isalnum()
    (held,) = made["secrets"]
    assert abs(expiry_of(held) - held["created_at"] - 90 * DAY_MS) < 1000
    assert abs(held["created_at"] - before_ms) < 20_000
    listed = secured.admin.http.get("/v1/access/tokens", params={"principal": "User:a b/c"})
    assert made["token"] not in listed.text
    assert secret not in listed.text
    (found,) = listed.json()["tokens"]
    assert found == {name: value for name, value in made.items() if name != "token"}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/principal"),
        ({"principal": "alice"}, "/principal"),
        ({"principal": "Group:a"}, "/principal"),
        ({"principal": "Role:a"}, "/principal"),
        ({"principal": "User:"}, "/principal"),
        ({"principal": "User:a\nb"}, "/principal"),
        ({"principal": "User:" + "a" * 256}, "/principal"),
        ({"principal": "*"}, "/principal"),
        ({"principal": "User:a", "groups": ["User:b"]}, "/groups/0"),
        ({"principal": "User:a", "groups": None}, "/groups"),
        ({"principal": "User:a", "expires_at": 1}, "/expires_at"),
        ({"principal": "User:a", "expires_at": None}, "/expires_at"),
        ({"principal": "User:a", "expires_at": 253402300799999}, "/expires_at"),
        ({"principal": "User:a", "token": "x"}, "/token"),
    ],
)
def test_a_token_that_can_not_be_is_refused(secured: Secured, body: Json, where: str) -> None:
    """The member that is wrong is named."""
    problem = secured.admin.refused(secured.admin.http.post("/v1/access/tokens", json=body), 400, "INVALID_REQUEST")
    assert [error["where"] for error in problem["errors"]] == [where]


def test_tokens_are_listed_in_pages(secured: Secured) -> None:
    """By id, each once, and of one principal where asked."""
    principal = f"User:{secrets.token_hex(4)}"
    made = sorted(secured.token(principal)["id"] for _ in range(5))
    found: list[str] = []
    after: dict[str, str] = {}
    for size in (2, 2, 1):
        page = secured.admin.http.get("/v1/access/tokens", params={"principal": principal, "limit": 2, **after}).json()
        assert len(page["tokens"]) == size
        found += [one["id"] for one in page["tokens"]]
        after = {"after": page["next"]} if "next" in page else {}
    assert (found, after) == (made, {})


def test_rotation_leaves_two_live_secrets(secured: Secured) -> None:
    """The last secret lives `overlap_ms` more at most, older ones end."""
    first = secured.token("User:someone")
    path = f"/v1/access/tokens/{first['id']}:rotate"
    now_ms = int(time.time() * 1000)
    answer = secured.admin.http.post(path, json={"overlap_ms": 3_600_000, "expires_at": now_ms + DAY_MS})
    second = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    assert second["id"] == first["id"]
    assert [status_of(secured, one["token"]) for one in (first, second)] == [200, 200]
    assert expiry_of(second["secrets"][0]) == now_ms + DAY_MS
    assert abs(expiry_of(second["secrets"][1]) - now_ms - 3_600_000) < 20_000
    third = secured.admin.http.post(path).json()
    assert [status_of(secured, one["token"]) for one in (first, second, third)] == [401, 200, 200]
    assert abs(expiry_of(third["secrets"][1]) - now_ms - DAY_MS) < 20_000
    last = secured.admin.http.post(path, json={"overlap_ms": 0}).json()
    assert [status_of(secured, one["token"]) for one in (second, third, last)] == [401, 401, 200]
    assert len(last["secrets"]) == 1


def test_an_overlap_prolongs_nothing(secured: Secured) -> None:
    """A secret that was to end soon ends then."""
    now_ms = int(time.time() * 1000)
    first = secured.token("User:someone", expires_at=now_ms + 60_000)
    second = secured.admin.http.post(f"/v1/access/tokens/{first['id']}:rotate").json()
    assert expiry_of(second["secrets"][1]) == now_ms + 60_000


@pytest.mark.parametrize(
    "body", [{"overlap_ms": -1}, {"overlap_ms": 604_800_001}, {"overlap_ms": None}, {"expires_at": 5}, {"x": 1}]
)
def test_a_rotation_that_can_not_be_is_refused(secured: Secured, body: Json) -> None:
    """Ranges are the contract's."""
    token = secured.token("User:someone")
    answer = secured.admin.http.post(f"/v1/access/tokens/{token['id']}:rotate", json=body)
    secured.admin.refused(answer, 400, "INVALID_REQUEST")


def test_a_revoked_token_ends_at_once(secured: Secured) -> None:
    """Where it was revoked; the bootstrap token is no token of the table."""
    made = secured.token("User:someone")
    assert status_of(secured, made["token"]) == 200
    assert secured.admin.http.delete(f"/v1/access/tokens/{made['id']}").status_code == 204
    assert status_of(secured, made["token"]) == 401
    for answer in (
        secured.admin.http.delete(f"/v1/access/tokens/{made['id']}"),
        secured.admin.http.post(f"/v1/access/tokens/{made['id']}:rotate"),
        secured.admin.http.delete("/v1/access/tokens/bootstrap"),
        secured.admin.http.post("/v1/access/tokens/bootstrap:rotate"),
    ):
        secured.admin.refused(answer, 404, "UNKNOWN_TOKEN")
    assert "bootstrap" not in {one["id"] for one in secured.admin.http.get("/v1/access/tokens").json()["tokens"]}


def test_a_token_ends_at_its_time(secured: Secured) -> None:
    """To the second, whatever was remembered of it."""
    made = secured.token("User:someone", expires_at=int(time.time() * 1000) + 3_000)
    assert status_of(secured, made["token"]) == 200
    time.sleep(3.1)
    assert status_of(secured, made["token"]) == 401


def test_roles_are_put_listed_and_deleted(secured: Secured) -> None:
    """Rights by a role come and go with membership, at once where it is changed."""
    name = f"r/{secrets.token_hex(4)}"
    path = f"/v1/access/roles/{name.replace('/', '%2F')}"
    principal, api = secured.user()
    topic = secured.admin.topic()
    secured.allow(f"Role:{name}", "Write", "topic", topic)
    api.refused(api.produce(topic, {"value": "v"}), 403, "UNAUTHORIZED")
    for _ in range(2):
        put = secured.admin.http.put(path, json={"members": [principal, "Group:x", principal]})
        assert (put.status_code, put.json()) == (200, {"role": name, "members": [principal, "Group:x"]})
    assert api.produce(topic, {"value": "v"}).status_code == 200
    assert put.json() in secured.admin.http.get("/v1/access/roles", params={"limit": 10_000}).json()["roles"]
    page = secured.admin.http.get("/v1/access/roles", params={"limit": 1}).json()
    assert len(page["roles"]) == 1
    secured.admin.http.put(path, json={"members": ["Group:x"]})
    api.refused(api.produce(topic, {"value": "v"}), 403, "UNAUTHORIZED")
    in_group = secured.with_token(secured.token("User:another", "Group:x")["token"])
    assert in_group.produce(topic, {"value": "v"}).status_code == 200
    assert secured.admin.http.delete(path).status_code == 204
    in_group.refused(in_group.produce(topic, {"value": "v"}), 403, "UNAUTHORIZED")
    secured.admin.refused(secured.admin.http.delete(path), 404, "UNKNOWN_ROLE")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"members": None},
        {"members": ["Role:a"]},
        {"members": ["*"]},
        {"members": ["alice"]},
        {"members": [], "x": 1},
    ],
)
def test_a_role_that_can_not_be_is_refused(secured: Secured, body: Json) -> None:
    """Members are users and groups, named as such."""
    secured.admin.refused(secured.admin.http.put("/v1/access/roles/r", json=body), 400, "INVALID_REQUEST")


@pytest.mark.parametrize("caller", ["alone"], indirect=True)
def test_without_authentication_all_is_allowed(api: Api) -> None:
    """`auth=off`: everyone is anonymous, and there is nothing to administer, whatever the request."""
    assert api.http.get("/v1/whoami").json() == {
        "principal": "User:anonymous",
        "groups": [],
        "roles": [],
        "super_user": False,
        "authentication": "none",
        "token_id": None,
        "expires_at": None,
    }
    for method, path in (
        ("POST", "/v1/access/tokens"),
        ("GET", "/v1/access/tokens?nonsense=1"),
        ("DELETE", "/v1/access/acls"),
        ("PUT", "/v1/access/roles/a"),
        ("POST", "/v1/access:test"),
    ):
        api.refused(api.http.request(method, path, content=b"{"), 409, "AUTH_DISABLED")
    assert api.http.get("/v1/topics", headers={"authorization": "Bearer nonsense"}).status_code == 200


def test_access_survives_a_restart_and_the_store_has_no_secret(tmp_path: Path) -> None:
    """Tokens, roles and ACLs are in the store; what proves a token is not."""
    with secured_gateway(tmp_path) as (secured, gateway):
        made = secured.token("User:alice", "Group:w")
        secured.allow("Role:r", "Create", "topic", "alice-", pattern="prefix")
        secured.admin.http.put("/v1/access/roles/r", json={"members": ["Group:w"]})
        gateway.end()
        gateway.start()
        api = secured.with_token(made["token"])
        answer = api.http.post("/v1/topics", json={"name": "alice-1"})
        assert answer.status_code == 201
        secret = made["token"].split("_", 2)[2].encode()
        bootstrap = str(secured.admin.http.headers["authorization"]).split("_", 2)[2].encode()
        written = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
        assert any(made["id"].encode() in data for data in written)
        assert not any(secret in data or bootstrap in data for data in written)
        assert secret.decode() not in gateway.log()


def test_a_change_holds_at_other_gateways_within_seconds(tmp_path: Path) -> None:
    """Revocation and a deny, made at one gateway, seen at another."""
    with secured_gateway(tmp_path, "--forwarding", "off") as (secured, _):
        settings = ("--auth", "on", "--forwarding", "off", "--bootstrap-token-file", str(tmp_path / "bootstrap"))
        with running_gateway(tmp_path / "store", tmp_path / "log-2", *settings) as other:
            principal = "User:alice"
            made, topic = secured.token(principal), secured.admin.topic()
            secured.allow(principal, "Write", "topic", topic)
            api = Api(other.url)

            def produced() -> int:
                headers = {"authorization": f"Bearer {made['token']}"}
                body = {"records": [{"value": "v"}]}
                return api.http.post(f"/v1/topics/{topic}/records", json=body, headers=headers).status_code

            def within_5_s(status: int) -> None:
                until(lambda: produced() == status, 5)

            within_5_s(200)
            secured.allow(principal, "Write", "topic", topic, permission="deny")
            within_5_s(403)
            secured.admin.http.delete(f"/v1/access/tokens/{made['id']}")
            within_5_s(401)
            api.http.close()
