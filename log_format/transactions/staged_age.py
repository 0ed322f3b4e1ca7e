"""The age of what is staged before its transaction has a row: collectors give it up and delete it, and forget that later.

A transaction's id is issued before anything is staged for it, and by the program that decides.
"""

from __future__ import annotations

from typing import Final

from log_format import limits
from log_format.errors import BackOff, TidelogError
from log_format.topic.producer_id import issued_ms, kind_of

JOB_MS_MAX: Final = limits.ORPHAN_GRACE_MS // 2
"""A job that staged longer ago, by the clocks of its own program, never decides its transaction."""

REQUEST_MS_MAX: Final = 60_000
"""The same of a transaction that is one request. Gateways give it up after a quarter of that, and in a busy store forget minutes
later that they did."""

assert REQUEST_MS_MAX < JOB_MS_MAX < limits.TRANSACTION_REMEMBERED_MS


def is_older(transaction_id: str, age_ms: int, now_ms: int) -> bool:
    """Whether the id was issued longer ago than that: before anything was staged for it. False of a text that is no id."""
    return kind_of(transaction_id) != "" and now_ms - issued_ms(transaction_id) > age_ms


def staged_too_long() -> TidelogError:
    """The refusal of a decision whose staged objects may be deleted, or are: it was given up, perhaps long ago."""
    return BackOff("It was staged so long ago that it was given up: nothing of it happened. Send it again.")
