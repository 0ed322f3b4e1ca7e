"""What a connection knows of its client's credential: how it was proved, and whether it still holds.

A request that comes after the credential has ended, was revoked, or can't be judged closes the connection, as a broker does: the
client proves itself anew with the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.access.authentication import Authentication, Unauthenticated
from gateway.access.caller import Caller
from gateway.kafka.sasl import Mechanism
from log_format.errors import BackOff

SASL_KEYS: Final = frozenset({17, 36})
"""SaslHandshake and SaslAuthenticate: taken also once the credential has ended (KIP-368)."""


@dataclass(slots=True)
class Login:
    """``mechanism``: of the credential that comes next."""

    mechanism: Mechanism | None = None
    failures: int = 0


def holds(caller: Caller, authentication: Authentication | None) -> bool:
    """Whether the caller would be let in now."""
    if authentication is None:
        return True
    try:
        authentication.still(caller)
    except (Unauthenticated, BackOff):
        return False
    return True
