"""The messages by which clients authenticate: SASL PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628).

Both carry one credential: a token, or a JWT of the issuer. PLAIN has it as the password, under any user name: the credential
itself names the principal. Parsing is strict, bounded by the size of ``SaslAuthenticate``, and does not reveal what was wrong.

A request that comes after the credential has expired, was revoked, or can't be checked closes the connection, as a broker does:
the client authenticates again on its next connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gateway.access.authentication import CREDENTIAL_BYTES_MAX, Authentication, Unauthenticated
from gateway.access.caller import Caller
from log_format.errors import BackOff

Mechanism = Literal["PLAIN", "OAUTHBEARER"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("PLAIN", "OAUTHBEARER")
_USER_BYTES_MAX: Final = 1024
MESSAGE_BYTES_MAX: Final = CREDENTIAL_BYTES_MAX + 4 * _USER_BYTES_MAX
"""Size of a credential, names, and OAUTHBEARER's extensions."""
_BEARER: Final = b"auth=bearer "
SASL_KEYS: Final = frozenset({17, 36})
"""SaslHandshake and SaslAuthenticate: accepted also after the credential has expired (KIP-368)."""


def credential_of(mechanism: Mechanism, message: bytes) -> bytes:
    """Return the credential in the client's message. Raise ``Unauthenticated``."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise Unauthenticated
    return _plain(message) if mechanism == "PLAIN" else _bearer(message)


def _plain(message: bytes) -> bytes:
    parts = message.split(b"\0")
    if len(parts) != 3 or not parts[2]:
        raise Unauthenticated
    return parts[2]


def _bearer(message: bytes) -> bytes:
    gs2, *pairs = message.split(b"\x01")
    if not gs2.startswith((b"n,", b"y,")) or len(pairs) < 3 or pairs[-2:] != [b"", b""]:
        raise Unauthenticated
    found = [pair[len(_BEARER) :].strip(b" ") for pair in pairs if pair[: len(_BEARER)].lower() == _BEARER]
    if len(found) != 1 or not found[0]:
        raise Unauthenticated
    return found[0]


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
        authentication.revalidate(caller)
    except (Unauthenticated, BackOff):
        return False
    return True
