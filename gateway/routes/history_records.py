"""Fetches of history: those whose records are in old segments, answered by the lane's readers.

Not the lane's: records that the gateway has in memory or that only a journal has, small answers, filters, starts by timestamp,
and waits for more than the first record.
"""

from __future__ import annotations

from contextlib import aclosing

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.asgi.compression import AS_IT_IS
from gateway.asgi.observation import SENT_BYTES
from gateway.codec.answer_compression import encoding_of
from gateway.codec.media_type import PARQUET
from gateway.engine.fetch_answer import FetchFrom, FetchLimits
from gateway.engine.history import is_far_behind, old_runs
from gateway.engine.locating import ReadFrom
from gateway.gateway import answer_memory, engine_of, standing_of
from gateway.history.client_socket import CLIENT_SOCKET, ClientSocket
from gateway.history.lane import ANSWER_BYTES_MAX, Answer, Lane
from gateway.history.task import PlannedRun, Task
from gateway.log_engine import LogEngine
from gateway.routes import spent
from log_format.errors import BackOff, CorruptData


async def history_response(
    request: Request, lane: Lane, start: ReadFrom, limits: FetchLimits, kind: str
) -> ASGIApp | None:
    """The answer by the lane; None: the gateway is to read by itself. A client that is far behind wakes the readers.

    Raises as ``ReadFrom.state``, ``CorruptData``, ``BackOff``, and for lost rights.
    """
    engine = engine_of(request)
    if not lane.is_open:
        if _is_old(engine, start) and is_far_behind(start.state(), start.partition, start.offset):
            lane.wake()
        return None
    damaged: CorruptData | None = None
    while (task := _task(engine, start, limits, kind, encoding_of(request.scope["headers"]))) is not None:
        if damaged is not None and any(run.path == damaged.fields["segment"] for run in task.runs):
            raise damaged
        answer = await lane.read(task, answer_memory(request).client)
        if answer is None:
            return None
        if answer.head.record_count:
            return await _accepted(request, engine, task, answer)
        answer.close()
        if answer.head.trouble is not None:
            engine.reading.count_history(0)
            raise BackOff(f"The store did not give a segment: {answer.head.trouble}.")
        if answer.head.damage is None or damaged is not None:
            return None
        # Perhaps replaced since.
        damage = answer.head.damage
        damaged = CorruptData(damage.detail, topic=start.topic.name, segment=damage.segment)
        await start.topic.looked_at()
    return None


def may_be_history(request: Request, wanted: FetchFrom, limits: FetchLimits, kind: str) -> bool:
    """Whether a reader could answer it, if its records are old."""
    return (
        request.method == "GET"
        and kind != PARQUET
        and wanted.filter is None
        and wanted.timestamp_ms is None
        and wanted.offset != "latest"
        and not limits.are_small
        and (limits.bytes_min <= 1 or limits.wait_ms_max == 0)
    )


def _is_old(engine: LogEngine, start: ReadFrom) -> bool:
    """Whether there is a record, and it is not in memory. Raises as ``ReadFrom.state``."""
    state, partition, offset = start.state(), start.partition, start.offset
    return offset < state.high_watermark(partition) and not engine.reading.is_at_tail(state, partition, offset)


def _task(engine: LogEngine, start: ReadFrom, limits: FetchLimits, kind: str, encoding: str | None) -> Task | None:
    """What a reader is to do; None: it is not a reader's. Raises as ``ReadFrom.state``."""
    if not _is_old(engine, start):
        return None
    state = start.state()
    bytes_max = min(limits.bytes_max, ANSWER_BYTES_MAX)
    runs = old_runs(state, start.partition, start.offset, bytes_max)
    if not runs:
        return None
    end = state.high_watermark(start.partition)
    return Task(
        topic=start.topic.name,
        topic_id=start.topic_id,
        partition=start.partition,
        runs=tuple(
            PlannedRun(
                path=run.segment.path,
                size_bytes=run.segment.size_bytes,
                footer_start=run.segment.footer_start,
                footer_crc32=run.segment.footer_crc32,
                start_offset=max(start.offset, run.base_offset),
                end_offset=min(run.end_offset, end),
            )
            for run in runs
        ),
        records_max=limits.records_max,
        bytes_max=bytes_max,
        kind=kind,
        encoding=encoding,
        high_watermark=end,
        log_start_offset=state.log_start(start.partition),
    )


async def _accepted(request: Request, engine: LogEngine, task: Task, answer: Answer) -> _HistoryResponse:
    """The answer, unless its caller lost the right to it while it was read: then its error is raised."""
    try:
        for lost in (await standing_of(request).unreadable([task.topic])).values():
            raise lost
        spent.fetched_bytes(request, answer.head.size_bytes)
    except BaseException:
        answer.close()
        raise
    engine.reading.count_history(answer.head.record_count)
    return _HistoryResponse(task, answer)


class _HistoryResponse:
    """Lets the reader write to the client, or hands its bytes on."""

    def __init__(self, task: Task, answer: Answer) -> None:
        self._task = task
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Raises ``BackOff`` where the reader ended."""
        del receive
        client: ClientSocket | None = scope.get(CLIENT_SOCKET)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers(), AS_IT_IS: True})
            sent_bytes = None if client is None else await self._straight(scope, client)
            if sent_bytes is None:
                async with aclosing(self._answer.pieces()) as pieces:
                    async for piece in pieces:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", SENT_BYTES: sent_bytes or 0})
        except OSError as error:
            if client is None or not client.is_lost:
                raise BackOff("The reader of old records ended in the middle of its answer.") from error
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._answer.close()

    async def _straight(self, scope: Scope, client: ClientSocket) -> int | None:
        """Have the reader write the body to the client; its bytes. None: this process is to pass it on. Raises ``OSError``."""
        if scope["http_version"] != "1.1" or (descriptor := await client.lend(self._answer.give_up)) is None:
            return None
        try:
            return await self._answer.straight(client, descriptor)
        finally:
            client.take_back()

    def _headers(self) -> list[tuple[bytes, bytes]]:
        head, task = self._answer.head, self._task
        headers = [
            (b"content-type", task.kind.encode()),
            (b"tidelog-next-offset", b"%d" % head.next_offset),
            (b"tidelog-high-watermark", b"%d" % task.high_watermark),
            (b"tidelog-log-start-offset", b"%d" % task.log_start_offset),
            (b"tidelog-topic-id", task.topic_id.encode()),
            (b"vary", b"Accept-Encoding"),
        ]
        if head.encoding is not None:
            headers.append((b"content-encoding", head.encoding.encode()))
        return headers
