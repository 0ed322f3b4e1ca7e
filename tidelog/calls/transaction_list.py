"""Transactions as their operator sees them: listed, and aborted."""

from __future__ import annotations

from typing import Literal

from tidelog.calls.access import AccessCalls
from tidelog.calls.pages import paged
from tidelog.http.transport import Reply, target
from tidelog.types.transaction import TransactionSummary


class TransactionListCalls(AccessCalls):
    """What ``Admin`` can do about transactions."""

    def list_transactions(
        self,
        state: Literal["open", "committing", "committed", "aborted"] | None = None,
        *,
        transactional_id_prefix: str | None = None,
    ) -> list[TransactionSummary]:
        """Transactions of the last day, of any state where ``state`` is None."""

        def page(after: str | None) -> Reply:
            where = target("transactions", state=state, transactional_id_prefix=transactional_id_prefix, after=after)
            return self._get(where)

        return list(paged("transactions", TransactionSummary, page))

    def abort_transaction(self, transaction_id: str) -> None:
        """Abort a transaction that hangs; its producer's next call raises ``TransactionNotOpen``. Repeated by itself.

        Raises ``UnknownTransaction``, ``TransactionNotOpen`` for a committed one.
        """
        self._call("POST", target("transactions", transaction_id, action="abort"), None, repeatable=True)
