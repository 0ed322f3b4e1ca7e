"""What a request used of its caller's quotas, once its route knows it. Nothing is measured where no quota is set."""

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


async def produced(request: Request, incoming: IncomingRecords, codec: CodecWork) -> None:
    """These records came."""
    spending = spending_of(request.scope)
    if spending is not None and spending.measures(PRODUCE_BYTES):
        spending.spend(PRODUCE_BYTES, await codec.do(partial(_record_bytes, incoming)))


def _record_bytes(incoming: IncomingRecords) -> int:
    return all_record_bytes(incoming.records) if incoming.single is None else incoming.single.size_bytes


def fetched(request: Request, answer: FetchAnswer) -> None:
    """These records are in the answer."""
    fetched_bytes(request, answer.size_bytes)


def fetched_bytes(request: Request, size_bytes: int) -> None:
    """Records of so many bytes go to the client, or it will read them by itself: then as they are stored."""
    spending = spending_of(request.scope)
    if spending is not None and size_bytes:
        spending.spend(FETCH_BYTES, size_bytes)


async def partitions_before(request: Request, topic: str) -> int | None:
    """How many partitions the topic has before it gets more; None: that does not matter. Raises ``Throttled``."""
    spending = spending_of(request.scope)
    if spending is None or not spending.measures(PARTITIONS):
        return None
    spending.check(PARTITIONS)
    return (await engine_of(request).administration.describe(topic)).partition_count


def partitions_created(request: Request, count: int) -> None:
    """So many partitions were created."""
    spending = spending_of(request.scope)
    if spending is not None and count > 0:
        spending.spend(PARTITIONS, count)
