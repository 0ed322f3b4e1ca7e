"""Answers with fetched records, encoded while they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from starlette.requests import Request

from gateway.access.admission_check import AdmissionCheck
from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.event_stream import PING, EventWriter
from gateway.codec.json_answer import Positions, failed_partition, json_pieces, ndjson_pieces
from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON, PARQUET
from gateway.codec.parquet_answer import parquet_pieces
from gateway.engine.answer_memory import AROUND_BYTES
from gateway.engine.bounds import EVENTS_BYTES_MAX, PING_MS
from gateway.engine.fetch_answer import FetchAnswer, Fetched
from gateway.engine.partition_streams import (
    PartitionStreams,
    StreamEnded,
    StreamEvent,
    StreamRecords,
    StreamSilent,
    StreamWoken,
)
from gateway.engine.read_records import Records
from gateway.engine.start_resolver import ReadPosition
from gateway.gateway import Gateway, standing_of
from gateway.http.fetch_response import PIECE_TEXT_BYTES, EventStreamResponse, RecordsResponse
from gateway.memory_budget import Memory
from gateway.problem import problem_bytes
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import Spending
from gateway.routes.fetch_operation import RECORDS_MAX
from log_format.errors import TidelogError
from log_format.records.schema import RECORD_SCHEMA

_RECORD_TEXT_BYTES: Final = 96
"""Estimated bytes that JSON adds to a record."""
PAUSE_MS_MAX: Final = 500
"""Longest pause of a stream that waits for its caller's quota before it checks whether the stream has to end."""
_PART_TEXT_BYTES: Final = 512
"""Estimated bytes of JSON for each partition, or its encoding time in bytes: it decides whether an answer is encoded in a
thread."""

# The memory of an answer that is sent in pieces is reserved before its records are read.
assert RECORDS_MAX * _RECORD_TEXT_BYTES + PIECE_TEXT_BYTES <= AROUND_BYTES

_NO_RECORDS: Final = RECORD_SCHEMA.empty_table()


def partition_response(gateway: Gateway, kind: str, found: FetchAnswer) -> RecordsResponse:
    """Return the answer with one partition. Raise the partition's error."""
    (part,) = found.parts
    if isinstance(part, TidelogError):
        found.reservation.release()
        raise part
    positions = _positions(part)
    table = _table(part.records)
    makers: dict[str, Callable[[], Iterator[bytes | memoryview]]] = {
        JSON: lambda: json_pieces(part.topic, part.partition, table, positions, topic_id=part.topic_id),
        NDJSON: lambda: ndjson_pieces(table),
        ARROW_STREAM: lambda: arrow_pieces(table),
        PARQUET: lambda: parquet_pieces(table),
    }
    return RecordsResponse(
        makers[kind],
        size_bytes=found.size_bytes + _RECORD_TEXT_BYTES * found.record_count,
        media_type=kind,
        headers=_headers(positions, part.topic_id),
        reservation=found.reservation,
        pool=gateway.codec_pool,
    )


def partitions_response(
    gateway: Gateway, opening: bytes, keys: Sequence[tuple[str, int]], found: FetchAnswer, identity: str | None
) -> RecordsResponse:
    """Return the answer with several partitions.

    Args:
        gateway: The gateway.
        opening: First members of the JSON object, with its brace and a comma.
        keys: Topic and partition of each part of ``found``.
        found: The fetched parts.
        identity: The request's id, for errors.
    """

    def pieces() -> Iterator[bytes | memoryview]:
        yield opening + b'"partitions":['
        separator = b""
        for (topic, partition), part in zip(keys, found.parts, strict=True):
            yield separator
            separator = b","
            if isinstance(part, TidelogError):
                yield failed_partition(topic, partition, problem_bytes(part, identity))
            else:
                yield from json_pieces(
                    part.topic, part.partition, _table(part.records), _positions(part), topic_id=part.topic_id
                )
        yield b"]}"

    size = found.size_bytes + _RECORD_TEXT_BYTES * found.record_count + _PART_TEXT_BYTES * len(found.parts)
    return RecordsResponse(
        pieces, size_bytes=size, media_type=JSON, headers={}, reservation=found.reservation, pool=gateway.codec_pool
    )


def event_stream_response(
    request: Request,
    following: PartitionStreams,
    start: ReadPosition,
    memory: Memory,
    spending: Spending | None,
    *,
    asked_id: str | None,
) -> EventStreamResponse:
    """Return the records of one partition as an event stream, as they arrive and the caller's quota allows.

    Args:
        request: The request.
        following: The engine's part for streams.
        start: Where the stream begins.
        memory: Budget of answers.
        spending: Usage of the request; None if quotas are off.
        asked_id: Id of the topic that the caller reads, if it named one.

    Raises:
        TidelogError: As ``ReadPosition.state`` raises it.
    """
    state = start.state()
    positions = Positions(
        next_offset=start.offset,
        high_watermark=state.high_watermark(start.partition),
        log_start_offset=state.log_start(start.partition),
    )
    is_recreated = asked_id not in (None, start.topic_id)
    writer = EventWriter(None if asked_id is None else start.topic_id, is_recreated=is_recreated)
    events = _events(following, start, memory, standing_of(request), spending, writer)
    return EventStreamResponse(request, events, headers=_headers(positions, start.topic_id))


async def _events(  # noqa: PLR0917
    following: PartitionStreams,
    start: ReadPosition,
    memory: Memory,
    standing: AdmissionCheck,
    spending: Spending | None,
    writer: EventWriter,
) -> AsyncGenerator[bytes, None]:
    with following.follow(start.topic, start.partition, start.offset, memory, start.filter) as stream:
        if writer.opening:
            yield writer.opening
        quiet_ms = 0
        while True:
            # Where the stream continues if its caller loses the right to the records that come.
            offset = stream.offset
            event: StreamEvent = StreamWoken()
            if spending is not None and not following.draining and (pause_ms := spending.pause_ms(FETCH_BYTES)):
                pause_ms = min(pause_ms, PAUSE_MS_MAX)
                await asyncio.sleep(pause_ms / 1000)
                quiet_ms += pause_ms
                if quiet_ms >= PING_MS:
                    quiet_ms, event = 0, StreamSilent()
            else:
                event = await stream.next(standing.ends_within_ms(PING_MS))
            if (
                ended := event
                if isinstance(event, StreamEnded)
                else await _find_lost_right(standing, start.topic.name, event)
            ) is not None:
                if isinstance(event, StreamRecords):
                    event.reservation.release()
                yield writer.end(ended.reason if ended.error is None else str(ended.error.code), offset)
                return
            if isinstance(event, StreamSilent):
                yield PING if start.filter is None else writer.ping_at(stream.offset)
            elif isinstance(event, StreamRecords):
                reservation = event.reservation
                if spending is not None:
                    spending.spend(FETCH_BYTES, event.records.size_bytes)
                try:
                    if event.records.size_bytes <= EVENTS_BYTES_MAX:
                        data = b"".join(writer.records(_table(event.records)))
                        # A slow client keeps the text of the events in memory, not their row groups.
                        del event
                        reservation.cover(len(data))
                        reservation.shrink_to(len(data))
                        yield data
                    else:
                        for piece in writer.records(_table(event.records)):
                            yield piece
                finally:
                    reservation.release()


async def _find_lost_right(standing: AdmissionCheck, topic: str, event: StreamEvent) -> StreamEnded | None:
    """Return the end of a stream whose caller has lost its rights, or whose rights are not known; None if they still hold."""
    try:
        return StreamEnded("unauthorized") if await standing.unreadable([topic]) else None
    except TidelogError as error:
        return StreamEnded("error", error)
    except BaseException:  # the client disconnected meanwhile
        if isinstance(event, StreamRecords):
            event.reservation.release()
        raise


def _positions(part: Fetched) -> Positions:
    return Positions(
        next_offset=part.records.next_offset,
        high_watermark=part.high_watermark,
        log_start_offset=part.log_start_offset,
    )


def _headers(positions: Positions, topic_id: str) -> dict[str, int | str]:
    return {
        "tidelog-next-offset": positions.next_offset,
        "tidelog-high-watermark": positions.high_watermark,
        "tidelog-log-start-offset": positions.log_start_offset,
        "tidelog-topic-id": topic_id,
    }


def _table(records: Records) -> pa.Table:
    return pa.concat_tables(records.tables) if records.tables else _NO_RECORDS
