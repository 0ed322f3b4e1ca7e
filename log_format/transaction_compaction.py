"""Rewrites ``system/transactions``: one file in place of all others, with the rows that count.

So the table, its checkpoints and what a gateway reads at its start are bounded by what is remembered, not by what ever happened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from log_format.change import NewId, Proposal
from log_format.delta import Add, Remove
from log_format.transaction_changes import StagedRows
from log_format.transaction_row import TAG_TRANSACTIONS, TransactionRow, encode_rows, encode_tag
from log_format.transactions_state import TAG_REQUESTS, TransactionsState


class Compact:
    """Put what holds now into one file in place of all others. The result is how many it replaces."""

    def __init__(self, new_id: NewId, *, files_min: int) -> None:
        self._new_id = new_id
        self._files_min = files_min

    def propose(self, state: TransactionsState, now_ms: int) -> Proposal[int]:
        """One ``add``, a ``remove`` for each live file; nothing while there are fewer than ``files_min``."""
        if len(state.files) < self._files_min:
            return Proposal(operation="OPTIMIZE", actions=(), result=0)
        rows = snapshot(state)
        file = StagedRows(path=f"compacted/{self._new_id()}.parquet", data=encode_rows(rows))
        add = Add(
            path=file.path,
            size=len(file.data),
            modification_time=max(now_ms, state.modification_time_ms + 1),
            data_change=False,
            stats=json.dumps({"numRecords": len(rows)}),
            tags={TAG_TRANSACTIONS: encode_tag(rows), TAG_REQUESTS: state.requests.encoded().decode()},
        )
        removes = [
            Remove(
                path=path,
                deletion_timestamp=now_ms,
                data_change=False,
                extended_file_metadata=True,
                partition_values={},
                size=size,
            )
            for path, size in state.files.items()
        ]
        return Proposal(operation="OPTIMIZE", actions=[add, *removes], result=len(removes), segment=file)


def snapshot(state: TransactionsState) -> Sequence[TransactionRow]:
    """The rows that bring ``state`` about, the longest unchanged first."""
    epochs = [
        msgspec.structs.replace(row, transaction_id="", state="producer", reason="", staged=(), places=())
        for row in state.producers.values()
        if row.transaction_id not in state.transactions
    ]
    return [*epochs, *state.transactions.values()]
