"""What a decided transaction brings to one topic: all its records for it, as one batch that is appended once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from log_format.topic.append import Batch
from log_format.topic.applied_transactions import TransactionStamp
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_records import StagedRecords


def transaction_batch(row: TransactionRow, requests: Sequence[StagedRecords], floor: int, now_ms: int) -> Batch:
    """The batch of staged requests for one topic, at least one, in order; ``floor``: of the transactions as they are known.

    ``now_ms``: the timestamps with ``LogAppendTime``, since what was staged is appended only now.
    """
    return Batch(
        topic_id=requests[0].topic_id,
        records=pa.concat_tables([request.records for request in requests]),
        partitions=np.concatenate([request.partitions for request in requests]),
        record_bytes_max=0,  # it was within the limit when it was staged: a decided transaction can't be refused
        transaction=TransactionStamp(row.transaction_id, row.decided_version, floor),
        append_time_ms=now_ms,
    )
