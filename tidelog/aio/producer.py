"""``Producer`` for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Unpack, cast

from log_format.errors import TidelogError
from tidelog import limits
from tidelog.aio.in_thread import in_thread
from tidelog.aio.keywords import ProducerKeywords
from tidelog.aio.record_future import AsyncRecordFuture
from tidelog.bodies.table_chunk import ArrowStream
from tidelog.closing import AsyncClosing
from tidelog.deadline import Deadline
from tidelog.errors import BufferFull, DeliveryFailed
from tidelog.producer.conversion import HeadersArgument
from tidelog.producer.producer import Producer as BlockingProducer
from tidelog.types.record import ProduceResult, RecordMetadata
from tidelog.units_of_time import in_seconds

if TYPE_CHECKING:
    from tidelog.producer.delivery import RecordFuture

_P = ParamSpec("_P")


def _uncancelled(
    method: Callable[Concatenate[BlockingProducer, _P], None],
) -> Callable[Concatenate[Producer, _P], Coroutine[Any, Any, None]]:
    """Wrap a blocking method as a coroutine. A cancelled coroutine waits for the call first: transaction calls never overlap."""

    @wraps(method)
    async def call(self: Producer, /, *arguments: _P.args, **named: _P.kwargs) -> None:
        running = in_thread(partial(method, self._producer, *arguments, **named))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running})
            raise

    return call


class Producer(AsyncClosing):
    """asyncio version of ``tidelog.Producer``; a full buffer is awaited and does not block the event loop.

    ``await producer.send(...)`` returns a future once the record is accepted. Awaiting the future gives the record's place.
    Cancelling ``send`` while it waits for room accepts no record; cancelling the future does not affect the record.
    ``on_delivery`` is called from the sending thread, not from the event loop.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        max_block_ms: float = limits.MAX_BLOCK_MS,
        **settings: Unpack[ProducerKeywords],
    ) -> None:
        """Create the producer, as ``tidelog.Producer``. Raises ``ValueError``."""
        if max_block_ms < 0:
            raise ValueError(f"max_block_ms is {max_block_ms}, below 0")
        self._max_block_ms = max_block_ms
        self._producer = BlockingProducer(bootstrap_servers, max_block_ms=0, **settings)

    async def send(  # noqa: PLR0917 - the order is that of kafka-python
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersArgument | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        *,
        deliver_at: datetime | int | None = None,
        deliver_after: timedelta | float | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Accept one record as soon as there is room. Raises as ``tidelog.Producer.send``."""
        deadline = Deadline(self._max_block_ms)
        if self._producer.needs_registration(topic, value):
            await in_thread(partial(self._producer.register_model, topic, value))
        while True:
            try:
                future = self._producer.send(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    deliver_at=deliver_at,
                    deliver_after=deliver_after,
                )
            except BufferFull as error:
                if not error.retryable or deadline.passed:
                    raise
                await self._wait_for_room(error.fields["size_bytes"], deadline)
            else:
                return AsyncRecordFuture(cast("RecordFuture", future))

    async def send_table(
        self, topic: str, table: ArrowStream, *, data: Sequence[str] = ()
    ) -> asyncio.Future[ProduceResult]:
        """Accept an Arrow table, as ``tidelog.Producer.send_table``. Cancelling this call does not stop it."""
        taken = in_thread(lambda: self._producer.send_table(topic, table, data=data, max_block_ms=self._max_block_ms))
        return asyncio.wrap_future(await asyncio.shield(taken))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Run a block in a transaction, as ``tidelog.Producer.transaction``; a cancelled block is aborted, too."""
        try:
            await self.begin_transaction()
        except asyncio.CancelledError:
            with contextlib.suppress(TidelogError, RuntimeError):  # it may have begun nevertheless
                await self.abort_transaction()
            raise
        try:
            yield
        except BaseException:
            with contextlib.suppress(TidelogError):
                await self.abort_transaction()
            raise
        await self.commit_transaction()

    init_transactions = _uncancelled(BlockingProducer.init_transactions)
    begin_transaction = _uncancelled(BlockingProducer.begin_transaction)
    commit_transaction = _uncancelled(BlockingProducer.commit_transaction)
    abort_transaction = _uncancelled(BlockingProducer.abort_transaction)
    send_offsets_to_transaction = _uncancelled(BlockingProducer.send_offsets_to_transaction)
    accept_in_transaction = _uncancelled(BlockingProducer.accept_in_transaction)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the topic's partitions, as ``tidelog.Producer.partitions_for``."""
        return await asyncio.shield(in_thread(lambda: self._producer.partitions_for(topic)))

    @in_seconds
    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the name it has in tidelog
        """Wait for delivery, as ``tidelog.Producer.flush``."""
        await asyncio.shield(in_thread(lambda: self._producer.flush(timeout)))

    @in_seconds
    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the name it has in tidelog
        """Close, as ``tidelog.Producer.close``. Cancelling this call does not stop the delivery."""
        await asyncio.shield(in_thread(lambda: self._producer.close(timeout)))

    def __repr__(self) -> str:
        """Show the gateways, as ``tidelog.Producer``."""
        return repr(self._producer).replace("<", "<aio.", 1)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close. If the block raised, its exception is kept, and failed deliveries are only logged."""
        with contextlib.suppress(*([DeliveryFailed] if error is not None else [])):
            await self.close()

    async def _wait_for_room(self, size_bytes: int, deadline: Deadline) -> None:
        """Wait for room in short slices, so that a thread whose task was cancelled ends soon."""
        slice_ms = min(deadline.remaining_ms(), limits.AIO_SLICE_MS)
        with contextlib.suppress(BufferFull):
            await in_thread(lambda: self._producer.wait_for_room(size_bytes, slice_ms))
