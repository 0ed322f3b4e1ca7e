"""A checkpoint's table moved on in one step, where the product goes piece by piece."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from log_format.checkpoints.reconciliation import Reconciliation
from log_format.delta.actions import Commit
from log_format.delta.checkpoint_schema import SCHEMA


def reconcile(table: pa.Table, commits: Iterable[Commit], now_ms: int) -> pa.Table:
    """A checkpoint's table (``SCHEMA``) moved on by ``commits``."""
    found = Reconciliation(table, commits, now_ms)
    return found.with_metadata(
        pa.concat_tables([SCHEMA.empty_table(), *found.rows(lambda: (table,), lambda: (table,))])
    )
