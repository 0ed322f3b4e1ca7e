"""A decided transaction's records for one topic: one batch that is appended once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from log_format.topic.append import Batch
from log_format.topic.applied_transactions import TransactionStamp
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_records import StagedRecords


def transaction_batch(row: TransactionRow, requests: Sequence[StagedRecords], floor: int, now_ms: int) -> Batch:
    """Return one topic's batch.

    Args:
        row: the transaction.
        requests: the staged requests for the topic, at least one, in order.
        floor: floor of the transactions' state.
        now_ms: timestamp of the records under ``LogAppendTime``, since they are appended only now.
    """
    return Batch(
        topic_id=requests[0].topic_id,
        records=pa.concat_tables([request.records for request in requests]),
        partitions=np.concatenate([request.partitions for request in requests]),
        record_bytes_max=0,  # checked at staging: a decided transaction can't be refused
        transaction=TransactionStamp(row.transaction_id, row.decided_version, floor),
        append_time_ms=now_ms,
    )
