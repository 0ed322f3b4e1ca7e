"""A gateway with ``auth=on``, as its administrator has it: callers with tokens and rights of their own."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.http_api import Api, Json


def bootstrap_file(directory: Path) -> tuple[Path, str]:
    """A file with a new bootstrap token, and the token."""
    token = f"tl_bootstrap_{secrets.token_urlsafe(32)}"
    path = directory / "bootstrap"
    path.write_text(token + "\n")
    path.chmod(0o600)
    return path, token


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

    def close(self) -> None:
        for one in self._made:
            one.http.close()


@contextlib.contextmanager
def secured_gateway(directory: Path, *settings: str) -> Iterator[tuple[Secured, GatewayProcess]]:
    """A gateway with ``auth=on`` on an empty store below the directory."""
    path, token = bootstrap_file(directory)
    access = ("--auth", "on", "--bootstrap-token-file", str(path))
    with running_gateway(directory / "store", directory / "log", *access, *settings) as gateway:
        made = Secured(gateway.url, token)
        try:
            yield made, gateway
        finally:
            made.close()
