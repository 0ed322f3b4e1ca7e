"""Administration of transactions: list and abort."""

from __future__ import annotations

from typing import Literal

from tidelog.calls.pages import paged
from tidelog.calls.shares import ShareCalls
from tidelog.http.transport import Reply, target
from tidelog.types.transaction import TransactionSummary


class TransactionListCalls(ShareCalls):
    """Calls of ``Admin`` about transactions."""

    def list_transactions(
        self,
        state: Literal["open", "committing", "committed", "aborted"] | None = None,
        *,
        transactional_id_prefix: str | None = None,
    ) -> list[TransactionSummary]:
        """Return the transactions of the last day, in any state if ``state`` is None."""

        def page(after: str | None) -> Reply:
            where = target("transactions", state=state, transactional_id_prefix=transactional_id_prefix, after=after)
            return self._get(where)

        return list(paged("transactions", TransactionSummary, page))

    def abort_transaction(self, transaction_id: str) -> None:
        """Abort a hanging transaction; its producer's next call raises ``TransactionNotOpen``. Retried automatically.

        Raises ``UnknownTransaction``, ``TransactionNotOpen`` for a committed one.
        """
        self._call("POST", target("transactions", transaction_id, action="abort"), None, repeatable=True)
