"""Transactions as the API lists them."""

from __future__ import annotations

import msgspec


class TransactionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A listed transaction. ``state``: ``open``, ``committing``, ``committed`` or ``aborted``; times in milliseconds."""

    transaction_id: str
    transactional_id: str
    state: str
    producer_id: str = ""
    epoch: int = 0
    began_at: int = 0
    expires_at: int = 0
    checks: int = 0
    """Number of times that it was offered to a ``TransactionChecker``."""
