"""The driver's part of a write through gateways: it sends the batch in one transaction, over all topics.

1. Beginning the transaction fences every other process of the query, and tells which batch was committed last. No other process
   can commit one after it. So the driver recognizes a batch that is in the log, and does not send it again.
2. Nothing is visible before the commit, everything after it. When the driver dies the transaction times out, or gateways finish
   it; the next beginning waits for that.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.records.canonical_json import bytes_at_most
from log_format.records.size import record_bytes
from log_format.transactions.job import NumberCommitted, judge_number
from log_format.transactions.row import NO_NUMBER
from spark_pipeline.sink.batch_name import BatchName, superseded_error
from spark_pipeline.sink.carry import CarriedTask, check_size, decode_stream, encode_stream
from spark_pipeline.sink.options import SinkOptions
from tidelog.calls import transactions
from tidelog.calls.produce import stage
from tidelog.calls.producers import Stamp
from tidelog.calls.topics import create_topic, describe_topic
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport

REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Approximate size of one request's records: below a gateway's limit with a quarter of the default."""
RECORD_OVERHEAD_BYTES: Final = 32
"""Overhead of a record besides key, value and headers."""
TIMEOUT_MS: Final = 300_000
"""Timeout of a transaction that its driver abandoned."""
CALL_MS_MAX: Final = 120_000
"""Time after which no further attempt of a call begins: a rolling restart of all gateways is over by then."""
ANSWER_MS_MAX: Final = 60_000
"""Time limit of one attempt: a commit waits for every topic's records."""
_ARROW: Final = "application/vnd.apache.arrow.stream"


def commit_carried(tasks: Sequence[CarriedTask], options: SinkOptions, *, call_ms_max: float = CALL_MS_MAX) -> None:
    """Commit the tasks' records; a named batch that was committed already changes nothing.

    On return the records are in the store and visible. After ``BatchRefused`` or ``TidelogError`` the batch may be repeated,
    whatever its outcome. Only the driver has the token, no executor.
    """
    parts: dict[str, list[pa.Table]] = {}
    for task in tasks:
        for part in task.parts:
            parts.setdefault(part.topic, []).append(decode_stream(part.stream))
    if not parts:
        return
    tables = {topic: pa.concat_tables(of_topic).combine_chunks() for topic, of_topic in sorted(parts.items())}
    check_size(sum(table.nbytes for table in tables.values()))
    transport = Transport(options.gateways, request_timeout_ms=ANSWER_MS_MAX, token_file=options.token_file)
    try:
        _commit(transport, tables, tasks[0].batch, call_ms_max)
    finally:
        transport.close()


def topic_exists(topic: str, options: SinkOptions) -> bool:
    """Return whether gateways have the topic. A missing one is created if ``options`` give its number of partitions."""
    transport = Transport(options.gateways, request_timeout_ms=ANSWER_MS_MAX, token_file=options.token_file)
    try:
        describe_topic(transport, topic, Deadline(CALL_MS_MAX))
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.UNKNOWN_TOPIC:
            raise
        if options.create_partitions is None:
            return False
        try:
            create_topic(transport, topic, options.create_partitions, {}, Deadline(CALL_MS_MAX))
        except RequestRefused as other:
            if other.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # created concurrently
                raise
    finally:
        transport.close()
    return True


def _commit(transport: Transport, tables: Mapping[str, pa.Table], batch: BatchName | None, call_ms_max: float) -> None:
    begun = transactions.begin(
        transport,
        f"spark-job-{uuid.uuid4().hex}" if batch is None else batch.transactional_id,
        TIMEOUT_MS,
        Deadline(call_ms_max),
        number=None if batch is None else batch.number,
        # Retries are safe, since the epoch is not checked here: each attempt fences a lost one.
        repeatable=True,
    )
    if batch is not None:
        last_number = NO_NUMBER if begun.last_number is None else begun.last_number
        refusal = judge_number(batch.transactional_id, batch.number, last_number)
        if refusal is not None:
            _abort(transport, begun.transaction_id, call_ms_max)
            if isinstance(refusal, NumberCommitted):
                return
            raise superseded_error(batch, last_number)
    try:
        for topic, table in tables.items():
            for sequence, request in enumerate(split_requests(table)):
                stage(
                    transport,
                    topic,
                    encode_stream(request),
                    _ARROW,
                    record_count=request.num_rows,
                    deadline=Deadline(call_ms_max),
                    transaction_id=begun.transaction_id,
                    stamp=Stamp(begun.producer, sequence),
                )
    except TidelogError:
        _abort(transport, begun.transaction_id, call_ms_max)
        raise
    transactions.commit(transport, begun.transaction_id, Deadline(call_ms_max))


def split_requests(table: pa.Table, request_bytes: int = REQUEST_BYTES) -> Iterator[pa.Table]:
    """Yield the records in order, in pieces of at most about ``request_bytes``; a single large record may exceed that."""
    ends = np.cumsum(_record_bytes(table) + RECORD_OVERHEAD_BYTES)
    start = 0
    while start < table.num_rows:
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + request_bytes, side="right")))
        yield table.slice(start, end - start)
        start = end


def _record_bytes(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the bytes of each record; where values are columns, those of an average one's document at most."""
    if "data" not in table.schema.names or not table.num_rows:
        return record_bytes(table)
    keys = record_bytes(
        table.set_column(table.schema.get_field_index("data"), "value", pa.nulls(len(table), pa.binary()))
    )
    documents = sum(bytes_at_most(chunk) for chunk in table.column("data").chunks)
    sizes: npt.NDArray[np.int64] = keys + documents // table.num_rows
    return sizes


def _abort(transport: Transport, transaction_id: str, call_ms_max: float) -> None:
    """Abort, best effort: a transaction left open times out, or is ended by the next one of its transactional id."""
    with contextlib.suppress(TidelogError):
        transactions.abort(transport, transaction_id, Deadline(call_ms_max))
