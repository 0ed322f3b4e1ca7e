"""Compaction of ``system/transactions``: one file with the current rows replaces all others.

So the size of the table, of its checkpoints and of a gateway's reads at start-up depends on what is remembered, not on everything
that ever happened.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from log_format.delta.system_table import CompactTable, TableContents
from log_format.topic.producer_id import is_numbered
from log_format.transactions.row import NO_NUMBER, TAG_TRANSACTIONS, TransactionRow, encode_rows, encode_tag
from log_format.transactions.state import TAG_REQUESTS, TransactionsState


class Compact(CompactTable[TransactionsState]):
    """A change that compacts the table, as ``CompactTable`` describes."""

    def contents(self, state: TransactionsState) -> TableContents:
        """Return the current rows, and the sequences of producers whose rows are forgotten."""
        rows = snapshot(state)
        tags: dict[str, str | None] = {
            TAG_TRANSACTIONS: encode_tag(rows),
            TAG_REQUESTS: state.requests.encoded().decode(),
        }
        return TableContents(data=encode_rows(rows), row_count=len(rows), tags=tags)


def snapshot(state: TransactionsState) -> Sequence[TransactionRow]:
    """Return the rows that give ``state``, the longest unchanged first."""
    epochs = [
        msgspec.structs.replace(
            row,
            transaction_id="",
            state="producer",
            reason=row.reason if is_numbered(row.producer_id) and row.reason != "asked" else "",
            staged=(),
            places=(),
            number=NO_NUMBER,
            last_number=row.committed_number,
        )
        for row in state.producers.values()
        if row.transaction_id not in state.transactions
    ]
    return [*epochs, *state.transactions.values()]
