"""Who may do what in the registry of a gateway with ``auth=on``, and how clients prove who they are."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.no_trust import NO_TRUST
from tests.support.registry import Registry, record
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until

TEXT = record("A", a="int")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A gateway that asks for credentials."""
    with secured_gateway(tmp_path_factory.mktemp("secured")) as (made, _):
        yield made


@pytest.fixture(scope="module")
def admin(secured: Secured) -> Iterator[Registry]:
    """Its registry, as an administrator asks it."""
    with _registry(secured, secured.admin.http.headers["authorization"]) as made:
        yield made


class _registry(Registry):
    def __init__(self, secured: Secured, authorization: str | None) -> None:
        headers = {} if authorization is None else {"authorization": authorization}
        super().__init__(f"{secured.url}/registry", headers=headers)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_a_token_is_bearer_or_the_password_of_basic(secured: Secured) -> None:
    """Under any user name; everything else is the one 401, in the registry's form. Elsewhere Basic is nothing."""
    principal = f"User:{secured.url[-4:]}basic"
    token = secured.token(principal)["token"]
    secured.allow(principal, "Write", "subject", "basic")
    lower = _basic("basic", token).replace("B", "b", 1)
    for authorization in (f"Bearer {token}", _basic("any", token), _basic("", token), lower):
        with _registry(secured, authorization) as registry:
            assert registry.register("basic", TEXT)
    wrong = [
        None,
        _basic("any", token[:-1]),
        _basic(token, "any"),
        f"Basic {token}",
        "Basic ====",
        "Basic",
        _basic("a", ""),
    ]
    for refused in wrong:
        with _registry(secured, refused) as registry:
            assert registry.refused(401, "GET", "/subjects")
            registry.refused(401, "GET", "/nothing")
    with _registry(secured, _basic("any", token)) as registry:
        assert registry.http.get(f"{secured.url}/v1/whoami").status_code == 401


def test_every_spelling_of_a_subject_is_the_same_resource(secured: Secured, admin: Registry) -> None:
    """A deny of ``a`` is one of ``:.:a``."""
    principal, _ = secured.user()
    token = secured.token(principal)["token"]
    secured.allow(principal, "Read", "subject", "*")
    secured.allow(principal, "All", "subject", "closed", permission="deny")
    schema_id = admin.register("closed", record("Closed", a="int"))
    with _registry(secured, f"Bearer {token}") as registry:
        for spelling in ("closed", ":.:closed", "%3A.%3Aclosed", "%63losed"):
            message = registry.refused(403, "GET", f"/subjects/{spelling}/versions/1")
            assert "needs Read on subject 'closed'" in message
        registry.refused(40403, "GET", f"/schemas/ids/{schema_id}")
        reference: dict[str, Any] = {"name": "Closed", "subject": ":.:closed", "version": 1}
        body = {"schema": record("B", b="Closed"), "references": [reference]}
        assert "'closed'" in registry.refused(403, "POST", "/subjects/open", body)
        assert "closed" not in str(registry.call("GET", "/subjects"))


def test_deletions_and_denials_are_audited(secured: Secured, admin: Registry) -> None:
    """With the subject in its one spelling; a registration is no administration."""
    admin.register("audited", TEXT)
    admin.call("DELETE", "/subjects/%3A.%3Aaudited")
    principal, _ = secured.user()
    with _registry(secured, f"Bearer {secured.token(principal)['token']}") as registry:
        registry.refused(403, "DELETE", "/subjects/audited")

    def events() -> set[tuple[str, str, str, str]]:
        found = secured.events()
        return {(one["kind"], one["operation"], one["resource"], one["route"]) for one in found}

    route = "/registry/subjects/{subject}"
    until(lambda: ("denial", "Delete", "audited", route) in events())
    until(lambda: ("administration", "Delete", "audited", route) in events())
    assert not any(route == "/registry/subjects/{subject}/versions" for *_, route in events())


def test_who_types_a_topic_needs_read_and_write_on_its_subject(secured: Secured, admin: Registry) -> None:
    """Columns show the schema's members, and the subject's further versions have to fit them: neither right is enough, to create
    or to alter (tests/support/rights has each alone, and Read on what the schema refers to)."""
    admin.register("bound-value", TEXT)
    principal = "User:typist"
    headers = {"authorization": f"Bearer {secured.token(principal)['token']}"}
    for operation, kind, name in (
        ("Create", "topic", "bound"),
        ("Alter", "topic", "bound"),
        ("Read", "subject", "bound-value"),
    ):
        secured.allow(principal, operation, kind, name)
    config = {"value.schema": "bound-value"}
    with httpx.Client(base_url=secured.url, headers=headers, timeout=60, verify=NO_TRUST, trust_env=False) as http:
        until(lambda: http.post("/v1/topics", json={"name": "bound"}).status_code in {200, 201})
        assert http.patch("/v1/topics/bound", json={"config": config}).status_code == 403
        assert http.post("/v1/topics", json={"name": "bound", "config": config}).status_code == 403
        secured.allow(principal, "Write", "subject", "bound-value")
        until(lambda: http.patch("/v1/topics/bound", json={"config": config}).status_code == 200)
