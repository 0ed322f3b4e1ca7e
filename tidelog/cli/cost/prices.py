"""S3's prices, and their source. ``infra/cost.py`` computes docs/cost.md from the same table."""

from __future__ import annotations

from typing import Final

CHECKED: Final = "November 2026"
SOURCE: Final = "infracost `s3_bucket_test`; AWS's price list as fetched in October 2025"
PRICES: Final = {
    "S3 Standard, GB-month": 0.023,
    "S3 PUT, 1,000": 0.005,
    "S3 GET, 1,000": 0.0004,
}
"""US dollars in us-east-1, on demand. A listing costs the same as a PUT, a HEAD the same as a GET, a DELETE nothing."""
PRICED_AS: Final = {"PUT": "S3 PUT, 1,000", "LIST": "S3 PUT, 1,000", "GET": "S3 GET, 1,000", "HEAD": "S3 GET, 1,000"}
SECONDS: Final = 730 * 3600
"""Seconds in a month."""


def stored_dollars(size_bytes: int) -> float:
    """Return the price of storing so many bytes for a month."""
    return size_bytes / 10**9 * PRICES["S3 Standard, GB-month"]


def request_dollars(kind: str) -> float:
    """Return the price of one request of the kind."""
    return PRICES[PRICED_AS[kind]] / 1000 if kind in PRICED_AS else 0.0
