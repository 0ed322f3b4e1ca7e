"""The caller of a request: its identity, and how it was authenticated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from starlette.requests import Request


class InvalidCredential(Exception):
    """A credential proves nothing. The text is for the log, never for the client."""


CALLER: Final = "tidelog.caller"
"""Key of the caller in a request's scope."""

Proof = Literal["token", "jwt", "certificate", "none"]


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. ``principal`` is ``User:…``, each of ``groups`` ``Group:…``, in order, each once.

    ``expires_at_ms``: end of its credential, in milliseconds since the epoch; None: the credential does not expire. ``secret``:
    the SHA-256 of the token's secret, in hexadecimal; None without a token.
    """

    principal: str
    groups: tuple[str, ...] = ()
    authentication: Proof = "none"
    token_id: str | None = None
    expires_at_ms: int | None = None
    secret: str | None = field(default=None, repr=False)


ANONYMOUS: Final = Caller("User:anonymous")
"""The caller of every request to a gateway without authentication."""


def caller_of(asked: Request | Mapping[str, Any]) -> Caller:
    """Return the caller of a request, or of a request's scope."""
    scope = asked.scope if isinstance(asked, Request) else asked
    caller: Caller = scope.get(CALLER, ANONYMOUS)
    return caller
