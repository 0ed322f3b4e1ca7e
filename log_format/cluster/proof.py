"""Proofs in ids that a gateway of the store issued the id, and for which owner. No proof is stored.

A proof is the first 20 hexadecimal digits of an HMAC-SHA-256 under the cluster's key, over the id's other part and, if it has an
owner, a zero byte and the owner. An owner is a principal; no id has a zero byte.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

DIGITS: Final = 20
FINGERPRINT_DIGITS: Final = 16
NOBODY: Final = ""
"""Owner of ids that are issued without authentication: anyone may use them."""


def prove(text: str, key: bytes, owner: str = NOBODY) -> str:
    """Return the proof of ``text``."""
    signed = f"{text}\0{owner}" if owner else text
    return hmac.digest(key, signed.encode(), "sha256").hex()[:DIGITS]


def is_proved(text: str, given: str, key: bytes, owner: str = NOBODY) -> bool:
    """Return whether ``given`` proves ``text`` for this owner, or without an owner."""
    proofs = {prove(text, key, one) for one in (owner, NOBODY)}
    return any(hmac.compare_digest(given.encode(), one.encode()) for one in proofs)


def fingerprint(owner: str) -> str:
    """Return the owner in a fixed length, for places that store owners; empty for nobody."""
    return hashlib.sha256(owner.encode()).hexdigest()[:FINGERPRINT_DIGITS] if owner else ""
