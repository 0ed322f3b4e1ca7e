"""The driver's part of a write through gateways: one transaction for the batch, over all topics.

1. The transaction's beginning fences every other process of the query, and tells which batch was committed last: behind it nobody
   else can commit one. So a batch that is in the log already is known, and not sent again.
2. Nothing is visible before the commit, all of it behind; where the driver dies the transaction ends by its time-out, or is
   finished by the gateways, and the next beginning waits for that.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from log_format.clock import SystemClock
from log_format.records.size import record_bytes
from log_format.transactions.job import NumberCommitted, judge_number
from log_format.transactions.row import NO_NUMBER
from spark_pipeline.sink.batch_name import BatchName, passed
from spark_pipeline.sink.carry import CarriedTask, check_size, decode_stream, encode_stream
from spark_pipeline.sink.gateway_calls import GatewayCalls, GatewayRefused
from spark_pipeline.sink.options import SinkOptions

REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Records of one request, about: below the limit of gateways that were given a quarter of the default."""
RECORD_OVERHEAD_BYTES: Final = 32
"""What a record takes beside key, value and headers."""
TIMEOUT_MS: Final = 300_000
"""Of a transaction that its driver left behind."""
_ARROW: Final = "application/vnd.apache.arrow.stream"


def commit_carried(tasks: Sequence[CarriedTask], options: SinkOptions) -> None:
    """Commit what the tasks carry; a batch with a name that was committed already changes nothing.

    When it returns the records are in the store and visible. Raises ``BatchRefused``, ``GatewayRefused``: then the batch may be
    repeated, whatever became of it.
    """
    parts: dict[str, list[pa.Table]] = {}
    for task in tasks:
        for part in task.parts:
            parts.setdefault(part.topic, []).append(decode_stream(part.stream))
    if not parts:
        return
    tables = {topic: pa.concat_tables(of_topic).combine_chunks() for topic, of_topic in sorted(parts.items())}
    check_size(sum(table.nbytes for table in tables.values()))
    calls = GatewayCalls(options.gateways, SystemClock())
    try:
        _commit(calls, tables, tasks[0].batch)
    finally:
        calls.close()


def _commit(calls: GatewayCalls, tables: Mapping[str, pa.Table], batch: BatchName | None) -> None:
    begun = _begun(calls, batch)
    transaction = f"/v1/transactions/{begun.transaction_id}"
    refusal = None if batch is None else judge_number(batch.transactional_id, batch.number, begun.last_number)
    if batch is not None and refusal is not None:
        _abort(calls, transaction)
        if isinstance(refusal, NumberCommitted):
            return
        raise passed(batch, begun.last_number)
    try:
        for topic, table in tables.items():
            for sequence, request in enumerate(requests_of(table)):
                headers = {**begun.headers, "Tidelog-Producer-Sequence": str(sequence)}
                calls.post(f"/v1/topics/{quote(topic, safe='')}/records", encode_stream(request), _ARROW, headers)
    except GatewayRefused:
        _abort(calls, transaction)
        raise
    calls.post(f"{transaction}:commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    transaction_id: str
    last_number: int
    headers: Mapping[str, str]


def _begun(calls: GatewayCalls, batch: BatchName | None) -> _Begun:
    """A transaction of the batch's, all others of its query fenced."""
    body: dict[str, Any] = {"transactional_id": f"spark-job-{uuid.uuid4().hex}", "timeout_ms": TIMEOUT_MS}
    if batch is not None:
        body |= {"transactional_id": batch.transactional_id, "number": batch.number}
    answer = calls.post_json("/v1/transactions", body)
    last_number = answer.get("last_number")
    return _Begun(
        transaction_id=answer["transaction_id"],
        last_number=NO_NUMBER if last_number is None else int(last_number),
        headers={
            "Tidelog-Transaction": answer["transaction_id"],
            "Tidelog-Producer-Id": answer["producer_id"],
            "Tidelog-Producer-Epoch": str(answer["epoch"]),
        },
    )


def requests_of(table: pa.Table) -> Iterator[pa.Table]:
    """The records in order, cut so that none but a single large record takes more than about ``REQUEST_BYTES``."""
    ends = np.cumsum(record_bytes(table) + RECORD_OVERHEAD_BYTES)
    start = 0
    while start < table.num_rows:
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + REQUEST_BYTES, side="right")))
        yield table.slice(start, end - start)
        start = end


def _abort(calls: GatewayCalls, transaction: str) -> None:
    """As well as that goes: what is not aborted ends by its time-out, or by the next one of its transactional id."""
    with contextlib.suppress(GatewayRefused):
        calls.post(f"{transaction}:abort")
