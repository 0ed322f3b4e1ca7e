"""JWTs of an OpenID Connect issuer as credentials."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest

from tests.support.issuer import AUDIENCE, Issuer, running_issuer
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as running:
        running.rotate("curve", kind="EC")
        yield running


@pytest.fixture(scope="module")
def with_jwts(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    settings = ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE)
    with secured_gateway(tmp_path_factory.mktemp("jwts"), *settings) as (secured, _):
        yield secured


def asked(secured: Secured, token: str | bytes) -> httpx.Response:
    bearer = b"Bearer " + (token.encode() if isinstance(token, str) else token)
    return httpx.get(f"{secured.url}/v1/whoami", headers={b"authorization": bearer})


def part(value: object) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")


@pytest.mark.parametrize(("key_id", "algorithm"), [("first", "RS256"), ("curve", "ES256")])
def test_a_jwt_names_its_user_and_groups(with_jwts: Secured, issuer: Issuer, key_id: str, algorithm: str) -> None:
    """By any algorithm of the settings, verified or remembered."""
    ends = int(time.time()) + 100
    groups = ["writers", "b c", "writers"]
    for _ in range(2):  # verified, and remembered
        token = issuer.token(key_id=key_id, algorithm=algorithm, groups=groups, exp=ends, aud=["other", AUDIENCE])
        assert asked(with_jwts, token).json() == {
            "principal": "User:alice",
            "groups": ["Group:writers", "Group:b c"],
            "roles": [],
            "super_user": False,
            "authentication": "jwt",
            "token_id": None,
            "expires_at": ends * 1000,
        }


def test_rights_go_by_the_groups_of_a_jwt(with_jwts: Secured, issuer: Issuer) -> None:
    """ACLs name the groups that the issuer knows."""
    topic = with_jwts.admin.topic()
    with_jwts.allow("Group:readers", "Read", "topic", topic)
    path = f"/v1/topics/{topic}/partitions/0/records?offset=earliest"
    for groups, status in ((["readers"], 200), ("readers", 200), (["others"], 403), (None, 403)):
        api = with_jwts.with_token(issuer.token(key_id="first", groups=groups))
        assert api.http.get(path).status_code == status


def wrong(issuer: Issuer) -> dict[str, str | bytes]:
    now = int(time.time())
    good = issuer.token(key_id="first")
    head, body, signature = good.encode().split(b".")
    claims = issuer.claims()
    hmac_head = part({"alg": "HS256", "typ": "JWT", "kid": "first"})
    signed = hmac_head + b"." + part(claims)
    confused = hmac.new(issuer.public_pem("first"), signed, hashlib.sha256).digest()
    stranger = Issuer()
    stranger.url = issuer.url
    return {
        "none": part({"alg": "none"}) + b"." + body + b".",
        "none with a signature": part({"alg": "none", "kid": "first"}) + b"." + body + b"." + signature,
        "nOnE": part({"alg": "nOnE", "kid": "first"}) + b"." + body + b"." + signature,
        "HMAC by the public key": signed + b"." + part(confused),
        "an algorithm that is not set": issuer.token(key_id="first", algorithm="RS512"),
        "a key of another kind": part({"alg": "ES256", "kid": "first"}) + b"." + body + b"." + signature,
        "another body": head + b"." + part(claims | {"sub": "root"}) + b"." + signature,
        "no signature": head + b"." + body + b".",
        "a stranger's key of that id": stranger.token(key_id="first"),
        "a key of its own": jwt.encode(claims, stranger.keys["first"], "RS256", headers={"kid": "evil"}),
        "a key in its head": jwt.encode(
            claims,
            stranger.keys["first"],
            "RS256",
            headers={"jwk": json.loads(stranger.key_set())["keys"][0], "jku": "http://127.0.0.1:1/"},
        ),
        "another issuer": issuer.token(key_id="first", iss=issuer.url + "/"),
        "no issuer": issuer.token(key_id="first", iss=None),
        "another audience": issuer.token(key_id="first", aud="other"),
        "no audience": issuer.token(key_id="first", aud=None),
        "expired": issuer.token(key_id="first", exp=now - 61),
        "no end": issuer.token(key_id="first", exp=None),
        "an end that is no number": issuer.token(key_id="first", exp="soon"),
        "an endless end": jwt.encode(claims | {"exp": float("inf")}, issuer.keys["first"], "RS256", headers={"kid": "first"}),
        "not yet": issuer.token(key_id="first", nbf=now + 90),
        "no user": issuer.token(key_id="first", sub=None),
        "a user that is no name": issuer.token(key_id="first", sub="a\nb"),
        "a long name": issuer.token(key_id="first", sub="a" * 256),
        "the bootstrap user": issuer.token(key_id="first", sub="bootstrap"),
        "groups that are no list": issuer.token(key_id="first", groups={"a": 1}),
        "9 KiB": issuer.token(key_id="first", more="x" * 9_000),
        "deep": part(b"[" * 5_000) + b"." + body + b"." + signature,
        "no JSON": part(b"{") + b"." + body + b"." + signature,
        "two parts": head + b"." + body,
        "five parts": b".".join([head, body, signature, signature, signature]),
    }  # fmt: skip


def test_there_is_one_answer_to_every_wrong_jwt(with_jwts: Secured, issuer: Issuer) -> None:
    """The same as to every wrong token, whatever is wrong."""
    assert asked(with_jwts, issuer.token(key_id="first")).status_code == 200
    bodies = set()
    for name, token in wrong(issuer).items():
        answer = asked(with_jwts, token)
        assert answer.status_code == 401, name
        assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
        bodies.add(re.sub(rb'"request_id":"[^"]*"', b"", answer.content))
    assert len(bodies) == 1


def test_clocks_may_differ_by_a_minute(with_jwts: Secured, issuer: Issuer) -> None:
    """Also for a token that is asked again."""
    now = int(time.time())
    for token in (issuer.token(key_id="first", exp=now - 40), issuer.token(key_id="first", nbf=now + 40)):
        for _ in range(2):
            assert asked(with_jwts, token).status_code == 200


def test_many_unknown_keys_ask_the_issuer_once(with_jwts: Secured, issuer: Issuer) -> None:
    """Or anyone could make a gateway load the issuer."""
    asked_before = issuer.asked
    for index in range(30):
        assert asked(with_jwts, issuer.token(key_id="first", header={"kid": f"unknown-{index}"})).status_code == 401
    assert issuer.asked <= asked_before + 1


def test_an_issuer_that_is_down_at_start_holds_up_no_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A JWT can't be judged meanwhile: 503, never in, never the 401 that makes a client throw a good token away."""
    with running_issuer() as issuer:
        issuer.status = 500
        settings = ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE)
        with secured_gateway(tmp_path_factory.mktemp("down"), *settings) as (secured, _):
            token = issuer.token()
            answer = asked(secured, token)
            assert (answer.status_code, answer.json()["error_code"]) == (503, "UNAVAILABLE")
            assert "retry-after" in answer.headers
            assert asked(secured, "nonsense").status_code == 401
            assert secured.admin.http.get("/v1/whoami").status_code == 200
            issuer.status = 200
            until(lambda: asked(secured, token).status_code == 200, seconds=10)


@contextmanager
def provider() -> Iterator[str]:
    """In a process of its own: its libraries warn."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _is_up(f"{url}/.well-known/openid-configuration"))
            yield url
        finally:
            process.kill()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_a_provider_that_others_wrote(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Discovery, keys and an ID token as a provider's library makes them."""
    with provider() as url:
        where = {"client_id": "tidelog", "redirect_uri": "http://localhost/back"}
        with httpx.Client(base_url=url, trust_env=False) as http:
            query = {**where, "response_type": "code", "scope": "openid"}
            back = http.post("/oauth2/authorize", params=query, data={"sub": "alice@example.com"})
            code = parse_qs(urlsplit(back.headers["location"]).query)["code"][0]
            form = {**where, "grant_type": "authorization_code", "code": code, "client_secret": "any"}
            token = http.post("/oauth2/token", data=form).json()["id_token"]
            named = http.get("/.well-known/openid-configuration").json()["issuer"]
        settings = ("--oidc-issuer", named, "--oidc-audience", "tidelog")
        with secured_gateway(tmp_path_factory.mktemp("provider"), *settings) as (secured, _):
            assert asked(secured, token).json()["principal"] == "User:alice@example.com"
