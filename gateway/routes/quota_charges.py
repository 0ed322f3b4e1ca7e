"""Charges to the caller's quotas, made once a route knows the amount. Without quotas nothing is measured."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from gateway.codec.incoming import IncomingRecords
from gateway.engine.fetch_answer import FetchAnswer
from gateway.gateway import engine_of
from gateway.quotas.limits import FETCH_BYTES, PARTITIONS, PRODUCE_BYTES
from gateway.quotas.spending import spending_of
from gateway.routes.batch import CodecWork
from log_format.records.size import all_record_bytes


async def charge_produced(request: Request, incoming: IncomingRecords, codec: CodecWork) -> None:
    """Charge the records of a produce request."""
    spending = spending_of(request.scope)
    if spending is not None and spending.measures(PRODUCE_BYTES):
        spending.spend(PRODUCE_BYTES, await codec.do(partial(_record_bytes, incoming)))


def _record_bytes(incoming: IncomingRecords) -> int:
    if incoming.single is not None:
        return incoming.single.size_bytes
    return all_record_bytes(incoming.records) + (0 if incoming.data is None else incoming.data.values.nbytes)


def charge_fetched(request: Request, answer: FetchAnswer) -> None:
    """Charge the records of an answer."""
    charge_fetched_bytes(request, answer.size_bytes)


def charge_fetched_bytes(request: Request, size_bytes: int) -> None:
    """Charge bytes of records that go to the client, or that the client will read from the store: then as they are stored."""
    spending = spending_of(request.scope)
    if spending is not None and size_bytes:
        spending.spend(FETCH_BYTES, size_bytes)


async def count_partitions_before(request: Request, topic: str) -> int | None:
    """Return the number of partitions before a change; None if no quota limits it. Raise ``Throttled``."""
    spending = spending_of(request.scope)
    if spending is None or not spending.measures(PARTITIONS):
        return None
    spending.check(PARTITIONS)
    return (await engine_of(request).administration.describe(topic)).partition_count


def charge_partitions(request: Request, count: int) -> None:
    """Charge new partitions."""
    spending = spending_of(request.scope)
    if spending is not None and count > 0:
        spending.spend(PARTITIONS, count)
