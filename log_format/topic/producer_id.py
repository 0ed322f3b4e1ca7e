"""Producer ids: issued without a write, and recognized by every gateway of the store.

``<kind><issue time><randomness>_<proof>``: 1 letter, 12 hexadecimal digits (milliseconds since the epoch), 20 hexadecimal digits,
and the first 20 of an HMAC-SHA-256 of all that, under a key in the store. So gateways refuse an invented id, and know an
id's age without having met it before.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

PLAIN: Final = "p"
"""The kind of a producer without a transactional id: its only epoch is 0."""
TRANSACTIONAL: Final = "t"
"""The kind of a transactional id's producer, and of a transaction."""
JOB: Final = "j"
"""The kind of a transaction that a job stages and decides by itself (``log_format.transactions.job``)."""
_TIME_DIGITS: Final = 12
_RANDOM_DIGITS: Final = 20
_PROOF_DIGITS: Final = 20
_ID: Final = re.compile(
    rf"([a-z])([0-9a-f]{{{_TIME_DIGITS}}})[0-9a-f]{{{_RANDOM_DIGITS}}}_([0-9a-f]{{{_PROOF_DIGITS}}})"
)


def issue(kind: str, issued_ms: int, randomness: str, key: bytes) -> str:
    """A new id. ``randomness``: unique, with at least 20 hexadecimal digits (other characters are left out)."""
    digits = re.sub(r"[^0-9a-f]", "", randomness)[:_RANDOM_DIGITS]
    if len(digits) < _RANDOM_DIGITS:
        raise ValueError(f"{randomness!r} has fewer than {_RANDOM_DIGITS} hexadecimal digits")
    text = f"{kind}{issued_ms:0{_TIME_DIGITS}x}{digits}"
    return f"{text}_{_proof(text, key)}"


def is_issued(producer_id: str, key: bytes) -> bool:
    """Whether the id was issued under this key."""
    if not _ID.fullmatch(producer_id):
        return False
    text, proof = producer_id.split("_")
    return hmac.compare_digest(proof, _proof(text, key))


def kind_of(producer_id: str) -> str:
    """``PLAIN``, ``TRANSACTIONAL`` or ``JOB``; empty for a text that is no id."""
    found = _ID.fullmatch(producer_id)
    return found.group(1) if found else ""


def issued_ms(producer_id: str) -> int:
    """When the id was issued, by the issuer's clock. Raises ``ValueError`` for a text that is no id."""
    found = _ID.fullmatch(producer_id)
    if found is None:
        raise ValueError(f"{producer_id!r} is no producer id")
    return int(found.group(2), 16)


def _proof(text: str, key: bytes) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_PROOF_DIGITS]
