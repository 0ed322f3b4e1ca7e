"""What a connection knows of its client's credential: how it was proved, and whether it still holds.

A request that comes after the credential has ended, was revoked, or can't be judged closes the connection, as a broker does: the
client proves itself anew with the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.access.authentication import Authentication, Headers
from gateway.access.caller import Caller
from gateway.kafka.sasl import Mechanism
from log_format.errors import BackOff

SASL_KEYS: Final = frozenset({17, 36})
"""SaslHandshake and SaslAuthenticate: taken also once the credential has ended (KIP-368)."""


@dataclass(slots=True)
class Login:
    """``mechanism``: of the credential that comes next. ``headers``: the credential, as an HTTP request would bring it."""

    mechanism: Mechanism | None = None
    failures: int = 0
    headers: Headers = field(default=(), repr=False)

    def holds(self, caller: Caller, authentication: Authentication | None) -> bool:
        """Whether the caller would be let in now."""
        if authentication is None:
            return True
        try:
            return authentication.holds(caller, self.headers)
        except BackOff:
            return False
