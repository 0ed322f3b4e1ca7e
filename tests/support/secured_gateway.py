"""A gateway with ``auth=on`` as a process, its administrator, and users that tests make."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.gateway_process import GatewayProcess
from tests.support.http_api import Agreement, Json
from tests.support.secured import bootstrap_file


class SecuredGateway:
    """``admin`` and the clients of users speak HTTP with their tokens; each call is compared with the OpenAPI document."""

    def __init__(self, gateway: GatewayProcess, token: str) -> None:
        self.gateway = gateway
        self._agreement = Agreement(gateway.http.get("/openapi.json").json())
        self._clients: list[httpx.Client] = []
        self.admin = self.client(token)

    def client(self, token: str) -> httpx.Client:
        made = httpx.Client(
            base_url=self.gateway.url,
            timeout=60,
            trust_env=False,
            headers={"authorization": f"Bearer {token}"},
            event_hooks={"response": [self._agreement.check]},
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def user(self, *acls: tuple[str, str, str]) -> tuple[str, httpx.Client]:
        """A new user that may do this: operation, resource type, resource (literally)."""
        principal = f"User:u-{secrets.token_hex(6)}"
        answer = self.admin.post("/v1/access/tokens", json={"principal": principal})
        assert answer.status_code == 201, answer.text
        if acls:
            listed = [
                {"principal": principal, "operation": operation, "resource_type": kind, "resource": resource}
                for operation, kind, resource in acls
            ]
            assert self.admin.post("/v1/access/acls", json={"acls": listed}).status_code in (200, 201)
        return principal, self.client(answer.json()["token"])

    def topic(self, partition_count: int = 1) -> str:
        name = f"test-{secrets.token_hex(6)}"
        body = {"name": name, "partition_count": partition_count, "config": {"flush.ms": 0}}
        assert self.admin.post("/v1/topics", json=body).status_code == 201
        return name

    def put_quota(self, principal: str, **members: int | None) -> Json:
        answer = self.admin.put(f"/v1/access/quotas/{principal}", json=members)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def events(self, **members: Any) -> list[Json]:
        """The audit events that are equal in all of these, as they are now; their record's offset in none of them."""
        found: list[Json] = []
        offset: int | str = "earliest"
        while True:
            query = {"offset": offset, "max_records": 10_000}
            answer = self.admin.get("/v1/topics/__audit/partitions/0/records", params=query)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            events = [_event(record) for record in page["records"]]
            found += [event for event in events if all(event[name] == value for name, value in members.items())]
            if not page["records"]:
                return found
            offset = page["next_offset"]


def _event(record: Mapping[str, Any]) -> Json:

    event: Json = json.loads(record["value"])
    return event


@contextmanager
def secured_gateway(
    store: str | Path, directory: Path, *settings: str, environment: Mapping[str, str] | None = None
) -> Iterator[SecuredGateway]:
    """One on ``store``; its log and its token are in ``directory``."""
    path, token = bootstrap_file(directory)
    log = directory / f"gateway-{secrets.token_hex(4)}.log"
    given = ("--auth", "on", "--bootstrap-token-file", str(path), *settings)
    gateway = GatewayProcess(store, log, *given, environment=environment)
    try:
        secured = SecuredGateway(gateway, token)
        try:
            yield secured
        finally:
            secured.close()
    finally:
        assert gateway.end() == 0, gateway.log()[-3000:]
