"""Fetches of history, meaning records in old segments, which the lane's readers answer.

The lane does not answer fetches of records that are in memory or only in a journal, small answers, filters, starts by timestamp,
or waits for more than the first record.
"""

from __future__ import annotations

from contextlib import aclosing

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.asgi.compression import NO_COMPRESSION
from gateway.asgi.observation import SENT_BYTES
from gateway.catch_up_reads.client_socket import CLIENT_SOCKET, ClientSocket
from gateway.catch_up_reads.lane import ANSWER_BYTES_MAX, Answer, HistoryLane
from gateway.catch_up_reads.task import PlannedRun, Task
from gateway.codec.answer_compression import choose_encoding_for
from gateway.codec.media_type import PARQUET
from gateway.engine.fetch_answer import FetchFrom, FetchLimits
from gateway.engine.history_plans import is_far_behind, old_runs
from gateway.engine.start_resolver import ReadPosition
from gateway.gateway import answer_memory, engine_of, standing_of
from gateway.log_engine import LogEngine
from gateway.routes import quota_charges
from log_format.errors import BackOff, CorruptData


async def history_response(
    request: Request, lane: HistoryLane, start: ReadPosition, limits: FetchLimits, kind: str
) -> ASGIApp | None:
    """Return the lane's answer; None if the gateway has to read itself. A client that is far behind starts the readers.

    Args:
        request: The request.
        lane: The lane of old records.
        start: Where to read.
        limits: Of the answer.
        kind: The answer's media type.

    Raises:
        CorruptData: A segment is damaged, and has not been replaced.
        BackOff: The store or a reader did not answer.
        TidelogError: As ``ReadPosition.state`` raises it, or the refusal of a caller that lost its rights.
    """
    engine = engine_of(request)
    if not lane.is_open:
        if _is_uncached(engine, start) and is_far_behind(start.state(), start.partition, start.offset):
            lane.wake()
        return None
    damaged: CorruptData | None = None
    while (task := _make_task(engine, start, limits, kind, choose_encoding_for(request.scope["headers"]))) is not None:
        if damaged is not None and any(run.path == damaged.fields["segment"] for run in task.runs):
            raise damaged
        answer = await lane.read(task, answer_memory(request).client)
        if answer is None:
            return None
        if answer.head.record_count:
            return await _accept(request, engine, task, answer)
        answer.close()
        if answer.head.trouble is not None:
            engine.reader.count_history(0)
            raise BackOff(f"The store did not return a segment: {answer.head.trouble}.")
        if answer.head.damage is None or damaged is not None:
            return None
        # The damaged segment may have been replaced since.
        damage = answer.head.damage
        damaged = CorruptData(damage.detail, topic=start.topic.name, segment=damage.segment)
        await start.topic.fresh_with_table()
    return None


def may_be_history(request: Request, wanted: FetchFrom, limits: FetchLimits, kind: str) -> bool:
    """Return whether a reader can answer the fetch, provided that its records are old."""
    return (
        request.method == "GET"
        and kind != PARQUET
        and wanted.filter is None
        and wanted.timestamp_ms is None
        and wanted.offset != "latest"
        and not limits.are_small
        and (limits.bytes_min <= 1 or limits.wait_ms_max == 0)
    )


def _is_uncached(engine: LogEngine, start: ReadPosition) -> bool:
    """Return whether there is a record at the offset, and it is not in memory. Raise as ``ReadPosition.state`` does."""
    state, partition, offset = start.state(), start.partition, start.offset
    return offset < state.high_watermark(partition) and not engine.reader.is_at_tail(state, partition, offset)


def _make_task(
    engine: LogEngine, start: ReadPosition, limits: FetchLimits, kind: str, encoding: str | None
) -> Task | None:
    """Return the task for a reader; None if the fetch is not for a reader. Raise as ``ReadPosition.state`` does."""
    if not _is_uncached(engine, start):
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


async def _accept(request: Request, engine: LogEngine, task: Task, answer: Answer) -> _HistoryResponse:
    """Return the response, unless its caller lost the right to it during the read: then raise that error."""
    try:
        for lost in (await standing_of(request).unreadable([task.topic])).values():
            raise lost
        quota_charges.charge_fetched_bytes(request, answer.head.size_bytes)
    except BaseException:
        answer.close()
        raise
    engine.reader.count_history(answer.head.record_count)
    return _HistoryResponse(task, answer)


class _HistoryResponse:
    """A response whose body the reader writes to the client itself, or which this process passes on."""

    def __init__(self, task: Task, answer: Answer) -> None:
        self._task = task
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. Raise ``BackOff`` if the reader ended."""
        del receive
        client: ClientSocket | None = scope.get(CLIENT_SOCKET)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers(), NO_COMPRESSION: True})
            sent_bytes = None if client is None else await self._write_directly(scope, client)
            if sent_bytes is None:
                async with aclosing(self._answer.pieces()) as pieces:
                    async for piece in pieces:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", SENT_BYTES: sent_bytes or 0})
        except OSError as error:
            if client is None or not client.is_lost:
                raise BackOff("The process that reads old records ended in the middle of its answer.") from error
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._answer.close()

    async def _write_directly(self, scope: Scope, client: ClientSocket) -> int | None:
        """Have the reader write the body to the client; return the bytes written. None: this process has to pass the body on.
        Raise ``OSError``."""
        if scope["http_version"] != "1.1" or (descriptor := await client.lend(self._answer.give_up)) is None:
            return None
        try:
            return await self._answer.send_directly(client, descriptor)
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
