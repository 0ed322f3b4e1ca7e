"""Producer ids: issued without a write to the store, and recognized by every gateway of the store.

``<kind><issue time><randomness>_<proof>``: 1 letter, 12 hexadecimal digits (milliseconds since the epoch), 20 hexadecimal digits,
and a proof of all that (``log_format.cluster.proof``). By the proof gateways refuse invented ids and ids of other owners. By the
issue time they know the age of an id that they never saw before.

A Kafka client's producer has a positive int64 instead, with the issue time in its high 42 bits and no room for a proof. Its text
is ``k`` and 16 hexadecimal digits. Its sequences count the records of each partition, so in a stamp the text ends with
``-<partition>``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from log_format.cluster.proof import DIGITS, NOBODY, is_proved, prove

PLAIN: Final = "p"
"""Kind of a producer without a transactional id; its only epoch is 0."""
TRANSACTIONAL: Final = "t"
"""Kind of a transactional id's producer, and of a transaction."""
JOB: Final = "j"
"""Kind of a transaction that a job stages and decides by itself (``log_format.transactions.job``)."""
KAFKA: Final = "k"
"""Kind of a Kafka client's producer."""
_TIME_DIGITS: Final = 12
_RANDOM_DIGITS: Final = 20
PUBLISHER: Final = f"s{'0' * (_TIME_DIGITS + _RANDOM_DIGITS)}_{'0' * DIGITS}"
"""Id under which gateways publish a topic's delayed records. Its epochs number the publications; it is never forgotten."""
_ID: Final = re.compile(rf"([a-z])([0-9a-f]{{{_TIME_DIGITS}}})[0-9a-f]{{{_RANDOM_DIGITS}}}_([0-9a-f]{{{DIGITS}}})")

_NUMBER: Final = re.compile(r"k([0-7][0-9a-f]{15})(?:-(0|[1-9][0-9]{0,8}))?")
_NUMBER_LENGTH: Final = 17
_NUMBER_RANDOM_BITS: Final = 21
_PARSED_MAX: Final = 4096
"""Number of ids that stay parsed: each batch of a Kafka client asks for its own some twenty times."""


def issue(kind: str, issued_ms: int, randomness: str, key: bytes, owner: str = NOBODY) -> str:
    """Return a new id.

    Args:
        kind: ``PLAIN``, ``TRANSACTIONAL`` or ``JOB``.
        issued_ms: present time, in ms since the epoch.
        randomness: unique text with at least 20 hexadecimal digits; other characters are left out.
        key: secret of the cluster, for the proof.
        owner: principal who may use the id.
    """
    digits = re.sub(r"[^0-9a-f]", "", randomness)[:_RANDOM_DIGITS]
    if len(digits) < _RANDOM_DIGITS:
        raise ValueError(f"{randomness!r} has fewer than {_RANDOM_DIGITS} hexadecimal digits")
    text = f"{kind}{issued_ms:0{_TIME_DIGITS}x}{digits}"
    return f"{text}_{prove(text, key, owner)}"


def is_issued(producer_id: str, key: bytes, owner: str = NOBODY) -> bool:
    """Return whether the id was issued under this key, for this owner or for nobody in particular."""
    if not _ID.fullmatch(producer_id):
        return False
    text, given = producer_id.split("_")
    return is_proved(text, given, key, owner)


def kind_of(producer_id: str) -> str:
    """Return ``PLAIN``, ``TRANSACTIONAL``, ``JOB`` or ``KAFKA``; an empty text if it is not an id."""
    if is_numbered(producer_id):
        return KAFKA
    found = _ID.fullmatch(producer_id)
    return found.group(1) if found else ""


def issued_ms(producer_id: str) -> int:
    """Return when the id was issued, by the issuer's clock. Raises ``ValueError`` for a text that is no id."""
    number = _NUMBER.fullmatch(producer_id)
    if number is not None:
        return int(number.group(1), 16) >> _NUMBER_RANDOM_BITS
    found = _ID.fullmatch(producer_id)
    if found is None:
        raise ValueError(f"{producer_id!r} is no producer id")
    return int(found.group(2), 16)


def issue_number(issued_ms: int, randomness: str) -> int:
    """Return a new id for a Kafka client's producer. ``randomness``: unique, with at least 6 hexadecimal digits."""
    digits = re.sub(r"[^0-9a-f]", "", randomness)[:6]
    return (issued_ms << _NUMBER_RANDOM_BITS) | (int(digits, 16) & ((1 << _NUMBER_RANDOM_BITS) - 1))


def format_number(number: int, partition: int | None = None) -> str:
    """Return a Kafka client's id (``number``: 0 to 2**63 - 1) as text; with a partition, as in a stamp."""
    text = f"{KAFKA}{number:016x}"
    return text if partition is None else f"{text}-{partition}"


@lru_cache(_PARSED_MAX)
def is_numbered(producer_id: str) -> bool:
    """Return whether the text is a Kafka client's id, with or without a partition."""
    return producer_id.startswith(KAFKA) and _NUMBER.fullmatch(producer_id) is not None


@lru_cache(_PARSED_MAX)
def has_partition(producer_id: str) -> bool:
    """Return whether the text is a Kafka client's id with a partition, as in a stamp."""
    return is_numbered(producer_id) and len(producer_id) > _NUMBER_LENGTH


def parse_number(producer_id: str) -> int:
    """Return the number of a Kafka client's id. Raises ``ValueError`` for any other text."""
    if _NUMBER.fullmatch(producer_id) is None:
        raise ValueError(f"{producer_id!r} is no Kafka client's producer id")
    return int(producer_id[1:_NUMBER_LENGTH], 16)


@lru_cache(_PARSED_MAX)
def split_partition(producer_id: str) -> tuple[str, int]:
    """Split a stamp's id into producer and partition. Raises ``ValueError`` for any other text."""
    found = _NUMBER.fullmatch(producer_id)
    if found is None or found.group(2) is None:
        raise ValueError(f"{producer_id!r} names no partition of a Kafka client's producer")
    return producer_id[:_NUMBER_LENGTH], int(found.group(2))
