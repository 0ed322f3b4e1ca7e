"""The orders that the benchmarks of typed topics send: eight fields, about 140 bytes as JSON."""

from __future__ import annotations

import random
from typing import Any, Final

FIELDS: Final = (
    ("id", "long"),
    ("amount", "double"),
    ("name", "string"),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("quantity", "int"),
    ("is_paid", "boolean"),
    ("parent", "long"),
    ("city", "string"),
)
"""Names and Avro types."""


def order(number: int) -> dict[str, Any]:
    """Return the order of this number, which is always the same."""
    rng = random.Random(number)
    return {
        "id": number,
        "amount": round(rng.random() * 1000, 2),
        "name": f"user{number % 1000}",
        "at": f"2026-11-28T12:{number // 60 % 60:02d}:{number % 60:02d}Z",
        "quantity": number % 7,
        "is_paid": number % 2 == 0,
        "parent": number * 3,
        "city": rng.choice(("Berlin", "Paris", "Rome")),
    }
