"""Reading records from asyncio: ``Consumer``.

Calls that wait for gateways run in a thread, one after the other, and hand out no records. Records are handed out in the loop,
in one step with the return from ``poll``. So a cancelled poll loses none: the next poll returns them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import tidelog.consumer.consumer
from log_format import limits as contract
from tidelog import limits
from tidelog.aio.in_thread import in_thread
from tidelog.aio.settings import ConsumerSettings
from tidelog.arguments import require_pyarrow
from tidelog.deadline import Deadline
from tidelog.types.group import GroupMetadata
from tidelog.types.record import Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")


class Consumer:
    """As ``tidelog.Consumer``, for one task at a time: a call by a second task meanwhile raises ``RuntimeError``.

    Every call may be cancelled. It has then happened or not; the positions are right in either case. The next call waits for
    what the cancelled one left running: about a second at most, or until a gateway has answered.

    ``on_revoked``, ``on_assigned`` and ``on_lost`` are plain functions, called in a thread beside the loop.
    """

    def __init__(self, *topics: str, **settings: Unpack[ConsumerSettings]) -> None:
        """As ``tidelog.Consumer``. Raises ``ValueError``."""
        self._iteration_timeout_ms = settings.get("consumer_timeout_ms")
        self._consumer = tidelog.consumer.consumer.Consumer(*topics, **settings)
        self._last: asyncio.Future[Any] | None = None
        self._busy = False

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """As ``tidelog.Consumer.assign``."""
        await self._call(lambda: self._consumer.assign(partitions))

    async def assignment(self) -> set[TopicPartition]:
        """As ``tidelog.Consumer.assignment``."""
        return await self._call(self._consumer.assignment)

    async def topics(self) -> set[str]:
        """As ``tidelog.Consumer.topics``."""
        return await self._call(self._consumer.topics)

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """As ``tidelog.Consumer.partitions_for_topic``."""
        return await self._call(lambda: self._consumer.partitions_for_topic(topic))

    async def seek(self, partition: TopicPartition, offset: int) -> None:
        """As ``tidelog.Consumer.seek``."""
        await self._call(lambda: self._consumer.seek(partition, offset))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """As ``tidelog.Consumer.seek_to_beginning``."""
        await self._call(lambda: self._consumer.seek_to_beginning(*partitions))

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """As ``tidelog.Consumer.seek_to_end``."""
        await self._call(lambda: self._consumer.seek_to_end(*partitions))

    async def position(self, partition: TopicPartition) -> int:
        """As ``tidelog.Consumer.position``."""
        return await self._call(lambda: self._consumer.position(partition))

    async def pause(self, *partitions: TopicPartition) -> None:
        """As ``tidelog.Consumer.pause``."""
        await self._call(lambda: self._consumer.pause(*partitions))

    async def resume(self, *partitions: TopicPartition) -> None:
        """As ``tidelog.Consumer.resume``."""
        await self._call(lambda: self._consumer.resume(*partitions))

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return self._consumer.paused()

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """As ``tidelog.Consumer.beginning_offsets``."""
        return await self._call(lambda: self._consumer.beginning_offsets(partitions))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """As ``tidelog.Consumer.end_offsets``."""
        return await self._call(lambda: self._consumer.end_offsets(partitions))

    async def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """As ``tidelog.Consumer.offsets_for_times``."""
        return await self._call(lambda: self._consumer.offsets_for_times(times_ms))

    async def positions(self) -> dict[TopicPartition, int]:
        """As ``tidelog.Consumer.positions``."""
        return await self._call(self._consumer.positions)

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None, *, metadata: str | None = None) -> None:
        """As ``tidelog.Consumer.commit``."""
        await self._call(lambda: self._consumer.commit(offsets, metadata=metadata))

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """As ``tidelog.Consumer.committed``."""
        return await self._call(lambda: self._consumer.committed(*partitions))

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """As ``tidelog.Consumer.seek_to_committed``."""
        await self._call(lambda: self._consumer.seek_to_committed(*partitions))

    async def lag(self) -> dict[TopicPartition, int]:
        """As ``tidelog.Consumer.lag``."""
        return await self._call(self._consumer.lag)

    def group_metadata(self) -> GroupMetadata:
        """As ``tidelog.Consumer.group_metadata``."""
        return self._consumer.group_metadata()

    async def poll(self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_records: int | None = None) -> list[Record]:
        """As ``tidelog.Consumer.poll``."""
        with self._one_task():
            await self._wait(timeout_ms)
            return self._consumer.ready(max_records)

    async def poll_arrow(
        self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_bytes: int = contract.FETCH_BYTES_MAX
    ) -> pa.Table:
        """As ``tidelog.Consumer.poll_arrow``."""
        require_pyarrow("poll_arrow")
        with self._one_task():
            await self._wait(timeout_ms)
            return self._consumer.ready_arrow(max_bytes)

    async def __aiter__(self) -> AsyncIterator[Record]:
        """As the iteration of ``tidelog.Consumer``: ``position`` is behind the last record handed out."""
        wait_ms = limits.ITERATION_WAIT_MS if self._iteration_timeout_ms is None else self._iteration_timeout_ms
        while True:
            records = await self.poll(wait_ms, 1)
            if not records and self._iteration_timeout_ms is not None:
                return
            for record in records:
                yield record

    async def close(self, *, leave: bool | None = None) -> None:
        """As ``tidelog.Consumer.close``; waits for the threads' end, too."""
        await asyncio.shield(in_thread(lambda: self._consumer.close(leave=leave)))
        await self._settled()

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Close. When the block raises, nothing more is committed by itself."""
        await asyncio.shield(in_thread(lambda: self._consumer.__exit__(kind, error, at)))
        await self._settled()

    async def _wait(self, timeout_ms: float) -> None:
        await self._settled()
        deadline = Deadline(timeout_ms)
        while not self._consumer.has_ready():
            slice_ms = min(deadline.remaining_ms(), limits.AIO_SLICE_MS)
            if await self._in_turn(partial(self._consumer.wait, slice_ms)) or deadline.passed:
                return

    async def _call(self, call: Callable[[], _T]) -> _T:
        with self._one_task():
            return await self._in_turn(call)

    async def _in_turn(self, call: Callable[[], _T]) -> _T:
        """Run it in a thread, behind what a cancelled call left running there."""
        await self._settled()
        running = self._last = in_thread(call)
        return await asyncio.shield(running)

    async def _settled(self) -> None:
        if self._last is not None and not self._last.done():
            await asyncio.wait({self._last})

    @contextlib.contextmanager
    def _one_task(self) -> Iterator[None]:
        if self._busy:
            raise RuntimeError("a consumer is for one task at a time, and another one is in it")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
