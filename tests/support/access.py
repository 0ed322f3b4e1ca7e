"""Tokens and rights at a gateway with ``auth=on``, as its operator makes them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.support.no_trust import NO_TRUST


class Right(NamedTuple):
    """One that is allowed; ``pattern``: ``literal`` or ``prefix``."""

    operation: str
    resource_type: str
    resource: str = "*"
    pattern: str = "literal"


def bootstrap_file(directory: Path) -> tuple[Path, str]:
    """A file with a new bootstrap token, and the token."""
    token = f"tl_bootstrap_{secrets.token_urlsafe(32)}"
    file = directory / "bootstrap"
    file.touch(mode=0o600)
    file.write_text(token + "\n")
    return file, token


def bootstrap(directory: Path) -> tuple[str, tuple[str, ...]]:
    """A token for the first steps, and the settings of a gateway that knows it."""
    file, token = bootstrap_file(directory)
    return token, ("--auth", "on", "--bootstrap-token-file", str(file))


def cluster_key(directory: Path) -> tuple[str, ...]:
    """The settings of gateways that share a key."""
    file = directory / "cluster_key"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32) + "\n")
    return ("--cluster-key-file", str(file))


def by(token: str) -> dict[str, str]:
    """The header of a request with this token."""
    return {"authorization": f"Bearer {token}"}


class Client:
    """Calls with a token, and what the operator's can do by ``/v1/access``."""

    def __init__(self, url: str, token: str | None, **more: Any) -> None:
        headers = {} if token is None else by(token)
        self.http = httpx.Client(
            base_url=url, headers=headers, timeout=30, trust_env=False, **{"verify": NO_TRUST, **more}
        )

    def allow(self, principal: str, *rights: Right) -> None:
        acls = [{"principal": principal, **right._asdict()} for right in rights]
        answer = self.http.post("/v1/access/acls", json={"acls": acls})
        assert answer.status_code in (200, 201), answer.text

    def forbid(self, principal: str, right: Right) -> None:
        """Take an allowed right away."""
        answer = self.http.delete("/v1/access/acls", params={"principal": principal, **right._asdict()})
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["acls"]) == 1

    def token(self, principal: str, rights: Iterable[Right] = (), **more: object) -> tuple[str, str]:
        """A new token of the principal, with these rights: its id and its text."""
        if rights := tuple(rights):
            self.allow(principal, *rights)
        answer = self.http.post("/v1/access/tokens", json={"principal": principal, **more})
        assert answer.status_code == 201, answer.text
        made = answer.json()
        return made["id"], made["token"]
