"""``POST /v1/sql``: a query over topics, answered by DuckDB in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.types import ASGIApp
from typing_extensions import TypedDict

from gateway.access.needs import Need, needs
from gateway.codec.arrow_answer import END_OF_STREAM
from gateway.codec.media_type import JSON, PARQUET, negotiate
from gateway.gateway import answer_memory, engine_of, gateway_of, require, standing_of
from gateway.http import fields
from gateway.http.disconnect import cancel_on_disconnect
from gateway.http.fetch_response import RecordsResponse
from gateway.http.parameters import accept_header
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.openapi.schemas import binary, text
from gateway.problem import refused
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.administration import note_denials
from gateway.routes.typed_route import TypedRoute
from gateway.sql.newest import RECORDS_MAX, NewestReader, ReadTopic
from gateway.sql.statements import WAITING_MAX, Statements
from gateway.sql.task import FRAME_BYTES_MAX, STATEMENT_CHARACTERS_MAX, StatementAnswer
from gateway.typed_topics.reader_cache import ReaderCache
from log_format.errors import ErrorCode, RequestRefused
from log_format.schemas.columns.codec import RecordReaders
from log_format.topic.config import Subjects

router = APIRouter(route_class=TypedRoute, tags=["sql"])

RECORDS_DEFAULT: Final = 10_000
_ANSWER_WAIT_MS_MAX: Final = 10_000
_ANSWER_COPIES: Final = 3
"""Copies of an answer: as received from the process, as validated, as sent."""


class Question(fields.Body, example={"sql": "select count(*), max(timestamp) from flights"}):
    """A statement, and how many records of each topic to query."""

    sql: Annotated[str, Field(min_length=1, max_length=STATEMENT_CHARACTERS_MAX, description="One SELECT of DuckDB's")]
    max_records: Annotated[
        int,
        fields.Between(1, RECORDS_MAX),
        Field(description="Of each topic: its newest; each partition gives one at least"),
    ] = RECORDS_DEFAULT
    timestamp: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        Field(description="Only records from the first of this time or later on"),
    ] = None


class SqlColumn(TypedDict):
    """A column of the answer."""

    name: str
    type: str


class SqlSpan(TypedDict):
    """Offsets of a partition, from `offset` up to `next_offset`, exclusive."""

    partition: fields.Partition
    offset: fields.Offset
    next_offset: fields.Offset


class SqlTopic(TypedDict):
    """The part of a topic that was read; `whole`: all its records."""

    topic: fields.TopicName
    records: fields.Count
    bytes: fields.Count
    whole: bool
    partitions: list[SqlSpan]


class SqlAnswer(TypedDict):
    """Rows, each a list in the order of the columns. `more`: further rows were left out."""

    columns: list[SqlColumn]
    rows: list[list[Any]]
    more: bool
    topics: list[SqlTopic]


@router.post(
    "/v1/sql",
    response_model=SqlAnswer,
    responses=problems(
        ErrorCode.NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.NOT_ACCEPTABLE,
        ErrorCode.CORRUPT_SEGMENT,
        ErrorCode.UNSUPPORTED_TABLE,
        *BODY_ERRORS,
    )
    | {
        200: {
            "content": {PARQUET: binary("A file with the rows")},
            "headers": {"Tidelog-More": {"schema": text("`true`: the file lacks further rows")["schema"]}},
        }
    },
)
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def ask(request: Request, question: Question) -> ASGIApp:
    """Answer a SQL query over the newest records of some topics."""
    statements = gateway_of(request).sql
    if statements is None:
        raise RequestRefused("SQL is off at this gateway: see its setting sql.", code=ErrorCode.NOT_FOUND)
    media_type = negotiate(accept_header(request), (JSON, PARQUET))
    return await cancel_on_disconnect(request, _answer(request, statements, question, media_type))


async def _answer(request: Request, statements: Statements, question: Question, media_type: str) -> ASGIApp:
    async with statements.process() as process:
        names = await process.parse(question.sql)
        if not names:
            what = "names no topics"
            raise refused(f"The statement {what}.", [("/sql", what)])
        require(request, "Read", "topic", *names)
        pool, loop = gateway_of(request).codec_pool, asyncio.get_running_loop()
        engine, memory = engine_of(request), answer_memory(request)
        readers = dict[str, RecordReaders | None]()

        async def send_block(topic: ReadTopic, records: pa.Table) -> None:
            if topic.name not in readers:
                readers[topic.name] = await _readers(engine.schema_readers, topic.subjects)
            block = await loop.run_in_executor(pool, _arrow_stream, records, readers[topic.name])
            await process.send_block(topic.name, block)

        newest = NewestReader(engine.start_resolver, engine.fetcher, memory, engine.clock)
        read = await newest.read(
            names, records_max=question.max_records, timestamp_ms=question.timestamp, take=send_block
        )
        quota_charges.charge_fetched_bytes(request, sum(topic.size_bytes for topic in read))
        held = await memory.reserve_in_turn(
            _ANSWER_COPIES * FRAME_BYTES_MAX, wait_ms=_ANSWER_WAIT_MS_MAX, waiting_max=WAITING_MAX
        )
        with held:
            found = await process.read_answer(media_type)
            body = found.file if media_type == PARQUET else _body(found, read)
            await _recheck_rights(request, names)
            return RecordsResponse(
                lambda: iter((body,)),
                size_bytes=len(body),
                media_type=media_type,
                headers={"tidelog-more": str(found.more).lower()} if media_type == PARQUET else {},
                reservation=held.split(len(body)),
                pool=pool,
            )


async def _recheck_rights(request: Request, topics: Sequence[str]) -> None:
    """Raise the error of the first topic that the caller lost the right to since the request arrived."""
    lost = await standing_of(request).unreadable(topics)
    note_denials(request, lost.values())
    for error in lost.values():
        raise error


async def _readers(known: ReaderCache, subjects: Subjects) -> RecordReaders | None:
    """Return the readers of a topic's schemas; None without any, also if the subject's versions were deleted."""
    try:
        return await known.of(subjects) if subjects.are_set else None
    except RequestRefused:
        return None


def _arrow_stream(records: pa.Table, readers: RecordReaders | None) -> list[memoryview]:
    """Return records, with typed columns if there are ``readers``, as an Arrow stream in parts that share the records' memory."""
    if readers is not None:
        typed, _ = readers.typed(records)
        records = pa.Table.from_arrays(
            [*records.columns, *typed.columns], schema=pa.schema([*records.schema, *typed.schema])
        )
    parts = (records.schema.serialize(), *(batch.serialize() for batch in records.to_batches()), END_OF_STREAM)
    return [memoryview(part) for part in parts]


def _body(found: StatementAnswer, read: Sequence[ReadTopic]) -> bytes:
    topics = [
        {
            "topic": topic.name,
            "records": topic.record_count,
            "bytes": topic.size_bytes,
            "whole": topic.is_whole,
            "partitions": [
                {"partition": span.partition, "offset": span.offset, "next_offset": span.next_offset}
                for span in topic.spans
            ],
        }
        for topic in read
    ]
    members = {"columns": found.columns, "rows": found.rows, "more": found.more, "topics": topics}
    return msgspec.json.encode(members)
