"""The caller of a request: its identity, and how that was proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from starlette.requests import Request


class NotProved(Exception):
    """A credential proves nothing. The text is for the log, never for the client."""


CALLER: Final = "tidelog.caller"
"""Where the request's scope has it."""

Proof = Literal["token", "jwt", "certificate", "none"]


@dataclass(frozen=True, slots=True)
class Caller:
    """``principal`` is ``User:…``, each of ``groups`` ``Group:…``, in order and once. ``expires_at_ms``: when its credential
    ends, in milliseconds since the epoch; None: not by itself. ``secret``: the SHA-256 of the token's secret that was shown, in
    hexadecimal; None where there is none."""

    principal: str
    groups: tuple[str, ...] = ()
    authentication: Proof = "none"
    token_id: str | None = None
    expires_at_ms: int | None = None
    secret: str | None = field(default=None, repr=False)


ANONYMOUS: Final = Caller("User:anonymous")
"""Every caller of a gateway without authentication."""


def caller_of(asked: Request | Mapping[str, Any]) -> Caller:
    """The caller of a request, or of a request's scope."""
    scope = asked.scope if isinstance(asked, Request) else asked
    caller: Caller = scope.get(CALLER, ANONYMOUS)
    return caller
