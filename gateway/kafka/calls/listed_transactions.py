"""ListTransactions and DescribeTransactions: the newest transaction of each transactional id, of Kafka clients and HTTP's alike.

Source: KIP-664, KIP-994.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import Answer, KafkaCall
from gateway.kafka.calls.coordinator import map_names
from gateway.kafka.errors import COORDINATOR, kafka_error
from gateway.transactions.kafka_transactions import NO_PRODUCER
from log_format.errors import TidelogError
from log_format.topic.producer_id import is_numbered, parse_number
from log_format.transactions.row import RowState, TransactionRow

_STATES: Final[Mapping[RowState, str]] = MappingProxyType(
    {
        "producer": "Empty",
        "open": "Ongoing",
        "committing": "PrepareCommit",
        "committed": "CompleteCommit",
        "aborted": "CompleteAbort",
    }
)
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1)
"""Time that is encoded as -1."""
_KAFKA_STATES: Final = frozenset({*_STATES.values(), "PrepareAbort", "PrepareEpochFence", "Dead"})


async def list_transactions(call: KafkaCall, request: Any) -> Answer:
    """Answer with the transactions that the caller may describe and the filters match."""
    try:
        rows = (await call.engine.kafka_transactions.by_transactional_id()).values()
    except TidelogError as refusal:
        error = kafka_error(refusal, COORDINATOR)
        return call.answer(error_code=error, unknown_state_filters=(), transaction_states=())
    longer_than_ms = getattr(request, "duration_filter", -1)
    states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    found = [
        {
            "transactional_id": row.transactional_id,
            "producer_id": _number(row),
            "transaction_state": _STATES[row.state],
        }
        for row in rows
        if (not states or _STATES[row.state] in states)
        and (not producer_ids or _number(row) in producer_ids)
        and (longer_than_ms < 0 or (row.state == "open" and call.arrived_at_ms - row.began_at_ms > longer_than_ms))
        and call.allows("Describe", "transactional_id", row.transactional_id)
    ]
    unknown = [one for one in request.state_filters if one not in _KAFKA_STATES]
    return call.answer(error_code=KafkaError.none, unknown_state_filters=unknown, transaction_states=found)


async def describe_transactions(call: KafkaCall, request: Any) -> Answer:
    """Answer with the newest transaction of each id: of a committed one the topics that the caller may describe, of an open
    one its start time."""
    return call.answer(transaction_states=await map_names(request.transactional_ids, partial(_describe, call)))


async def _describe(call: KafkaCall, name: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "error_code": KafkaError.none,
        "transactional_id": name,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": _NO_TIME,
        "producer_id": NO_PRODUCER,
        "producer_epoch": -1,
        "topics": (),
    }
    try:
        call.require("Describe", "transactional_id", name)
        row = await call.engine.kafka_transactions.newest_of(name)
    except TidelogError as refusal:
        return {**described, "error_code": kafka_error(refusal, COORDINATOR)}
    if row is None:
        return {**described, "error_code": KafkaError.transactional_id_not_found}
    return {
        **described,
        "transaction_state": _STATES[row.state],
        "transaction_timeout": row.expires_at_ms - row.began_at_ms,
        "transaction_start_time": row.began_at_ms if row.state == "open" else _NO_TIME,
        "producer_id": _number(row),
        "producer_epoch": min(row.epoch, 2**15 - 1),
        "topics": [
            {"topic": topic, "partitions": [place.partition for place in places]}
            for topic, places in groupby(row.places, key=lambda place: place.topic)
            if call.allows("Describe", "topic", topic)
        ],
    }


def _number(row: TransactionRow) -> int:
    return parse_number(row.producer_id) if is_numbered(row.producer_id) else NO_PRODUCER
