"""A gateway with ``auth=on``, as its administrator has it: callers with tokens and rights of their own."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.access import bootstrap
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.http_api import Api, Json


def acl(principal: str, operation: str, resource_type: str, resource: str, **more: str) -> Json:
    """An ACL as a request has it."""
    named = {"principal": principal, "operation": operation, "resource_type": resource_type, "resource": resource}
    return named | more


class Secured:
    """The API of a gateway as ``User:bootstrap`` calls it, and as others do."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.admin = Api(url, token)
        self._made: list[Api] = [self.admin]

    def token(self, principal: str, *groups: str, **more: Any) -> Json:
        """A new token, as it is shown once."""
        body = {"principal": principal, "groups": list(groups), **more}
        answer = self.admin.http.post("/v1/access/tokens", json=body)
        assert answer.status_code == 201, answer.text
        made: Json = answer.json()
        return made

    def user(self, *groups: str, name: str | None = None) -> tuple[str, Api]:
        """A new user without rights, and its API."""
        principal = name or f"User:u-{secrets.token_hex(6)}"
        made = self.with_token(self.token(principal, *groups)["token"])
        return principal, made

    def with_token(self, token: str) -> Api:
        """The API as the token's user calls it."""
        self._made.append(Api(self.url, token))
        return self._made[-1]

    def allow(self, principal: str, operation: str, resource_type: str, resource: str, **more: str) -> None:
        """Add an ACL."""
        entry = acl(principal, operation, resource_type, resource, **more)
        answer = self.admin.http.post("/v1/access/acls", json={"acls": [entry]})
        assert answer.status_code in (200, 201), answer.text

    def forget(self, principal: str) -> None:
        """Delete all ACLs of a principal."""
        answer = self.admin.http.delete("/v1/access/acls", params={"principal": principal})
        assert answer.status_code == 200, answer.text

    def client(self, token: str) -> httpx.Client:
        """HTTP as the token's user speaks it."""
        return self.with_token(token).http

    def caller(self, *rights: tuple[str, str, str]) -> tuple[str, httpx.Client]:
        """A new user that may do this (operation, resource type, resource, literally), and its HTTP."""
        principal, made = self.user()
        for right in rights:
            self.allow(principal, *right)
        return principal, made.http

    def topic(self, partition_count: int = 1) -> str:
        """A new topic, that flushes at once."""
        return self.admin.topic(partition_count)

    def put_quota(self, principal: str, **members: int | None) -> Json:
        """What a principal may use from now on."""
        answer = self.admin.http.put(f"/v1/access/quotas/{principal}", json=members)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def events(self, **members: Any) -> list[Json]:
        """The audit events that are equal in all of these, as they are now; their record's offset in none of them."""
        found: list[Json] = []
        offset: int | str = "earliest"
        while True:
            query = {"offset": offset, "max_records": 10_000}
            answer = self.admin.http.get("/v1/topics/__audit/partitions/0/records", params=query)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            events = [json.loads(record["value"]) for record in page["records"]]
            found += [event for event in events if all(event[name] == value for name, value in members.items())]
            if not page["records"]:
                return found
            offset = page["next_offset"]

    def close(self) -> None:
        for one in self._made:
            one.http.close()


@contextlib.contextmanager
def secured_gateway(
    directory: Path, *settings: str, store: str | Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[Secured, GatewayProcess]]:
    """A gateway with ``auth=on``; its token, its log and, unless another is given, its empty store are in the directory."""
    token, access = bootstrap(directory)
    log = directory / f"gateway-{secrets.token_hex(4)}.log"
    place = directory / "store" if store is None else store
    with running_gateway(place, log, *access, *settings, environment=environment) as gateway:
        made = Secured(gateway.url, token)
        try:
            yield made, gateway
        finally:
            made.close()
