"""The messages by which clients authenticate: SASL PLAIN (RFC 4616) and OAUTHBEARER (RFC 7628).

Both carry one credential: a token, or a JWT of the issuer. PLAIN has it as the password, under any user name: the credential
itself names the principal. Parsing is strict, bounded by the size of ``SaslAuthenticate``, and does not reveal what was wrong.
"""

from __future__ import annotations

from typing import Final, Literal

from gateway.access.authentication import CREDENTIAL_BYTES_MAX, Unauthenticated

Mechanism = Literal["PLAIN", "OAUTHBEARER"]
MECHANISMS: Final[tuple[Mechanism, ...]] = ("PLAIN", "OAUTHBEARER")
_USER_BYTES_MAX: Final = 1024
MESSAGE_BYTES_MAX: Final = CREDENTIAL_BYTES_MAX + 4 * _USER_BYTES_MAX
"""Size of a credential, names, and OAUTHBEARER's extensions."""
_BEARER: Final = b"auth=bearer "


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
