"""The state of a connection's authentication, and whether its caller's credential is still valid.

A request that comes after the credential has expired, was revoked, or can't be checked closes the connection, as a broker does:
the client authenticates again on its next connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.access.authentication import Authentication, Unauthenticated
from gateway.access.caller import Caller
from gateway.kafka.sasl import Mechanism
from log_format.errors import BackOff

SASL_KEYS: Final = frozenset({17, 36})
"""SaslHandshake and SaslAuthenticate: accepted also after the credential has expired (KIP-368)."""


@dataclass(slots=True)
class Login:
    """State of a connection's authentication. ``mechanism``: the mechanism of the credential that the client sends next."""

    mechanism: Mechanism | None = None
    failures: int = 0


def has_valid_credential(caller: Caller, authentication: Authentication | None) -> bool:
    """Return whether the caller's credential would be accepted now."""
    if authentication is None:
        return True
    try:
        authentication.still(caller)
    except (Unauthenticated, BackOff):
        return False
    return True
