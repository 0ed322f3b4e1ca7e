"""A table's version, its metadata, and its files: at a version, or its changes since one.

Each call sees every record that was acknowledged before it, also of a topic at a journal (``gateway.engine.fresh_tables``). If
its drain fails, the answer's header ``tidelog-table-as-of`` has the time before which records are surely in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from gateway.access.caller import caller_of
from gateway.access.needs import Need, needs
from gateway.delta_sharing.actions import CAPABILITIES_HEADER, Capabilities, Sign, capabilities_of
from gateway.delta_sharing.changes import changes
from gateway.delta_sharing.lines_response import MEDIA_TYPE, RESERVED_BYTES, LinesResponse, Piece
from gateway.delta_sharing.pages import FILES_MAX, TOKEN_CHARACTERS_MAX, ChangesPage, FilesPage, token_of
from gateway.delta_sharing.shares import TABLE_PATH, topic_asked
from gateway.delta_sharing.signed_files import PURPOSE, GatewayUrls, StoreUrls, base_url, signs
from gateway.delta_sharing.snapshot import Hints, head_lines, snapshot
from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.engine.fresh_tables import FreshTable
from gateway.gateway import answer_memory, engine_of, gateway_of, standing_of
from gateway.http import fields
from gateway.http.parameters import header_text
from gateway.memory_budget import Reservation
from gateway.problem import refused
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.administration import note_denials
from gateway.routes.signatures import note_signatures
from gateway.routes.typed_route import TypedRoute
from log_format import layout
from log_format.checkpoints.pinned_versions import version_at
from log_format.checkpoints.table_files import TableFiles, files_at
from log_format.delta.log_retention import ListedLog
from log_format.errors import BackOff, ErrorCode, ObjectMissing, RequestRefused, StoreUnavailable
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

router = APIRouter(route_class=TypedRoute, include_in_schema=False)

VERSION_HEADER: Final = "delta-table-version"
AS_OF_HEADER: Final = "tidelog-table-as-of"
_ROW_BYTES: Final = 200
"""Approximate bytes of a file's row in a checkpoint, whose object is in memory while it is read."""
_WAITING_MAX: Final = 1_000
"""Most answers that wait for memory."""
_HINTS_MAX: Final = 1_000
_HINT_CHARACTERS_MAX: Final = 1_000_000
ResultT = TypeVar("ResultT")


class VersionQuery(fields.Parameters):
    """Time of the wanted version: the first one committed at this time or later; None: the newest."""

    model_config = ConfigDict(extra="ignore")

    startingTimestamp: Annotated[str | None, Field(max_length=64)] = None  # noqa: N815 - the protocol's names, here and below


class MetadataQuery(fields.Parameters):
    """The version whose metadata are wanted, by its number or time; the newest if neither is given."""

    model_config = ConfigDict(extra="ignore")

    version: Annotated[int, fields.Between(0)] | None = None
    timestamp: Annotated[str | None, Field(max_length=64)] = None

    _digits = field_validator("version", mode="before")(fields.parse_number)


class TableQuery(fields.Body):
    """Which files are wanted. Members that are not known are ignored, as in all of this protocol."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    predicateHints: Annotated[list[str] | None, Field(max_length=_HINTS_MAX)] = None  # noqa: N815
    jsonPredicateHints: Annotated[str | None, Field(max_length=_HINT_CHARACTERS_MAX)] = None  # noqa: N815
    limitHint: Annotated[int, fields.Between(0, 2**31 - 1)] | None = None  # noqa: N815
    version: fields.Count | None = None
    timestamp: Annotated[str | None, Field(max_length=64)] = None
    startingVersion: fields.Count | None = None  # noqa: N815
    endingVersion: fields.Count | None = None  # noqa: N815
    maxFiles: Annotated[int, fields.Between(1, 2**31 - 1)] | None = None  # noqa: N815
    pageToken: Annotated[str | None, Field(max_length=TOKEN_CHARACTERS_MAX)] = None  # noqa: N815

    def hints(self) -> Hints:
        """Return what it says of the rows."""
        return Hints(
            limit=self.limitHint,
            json_predicate=self.jsonPredicateHints,
            sql_predicates=tuple(self.predicateHints or ()),
        )


EVERYTHING: Final = TableQuery()


class _Asked(NamedTuple):
    """A table that is asked for, as fresh as possible."""

    request: Request
    topic: str
    table: FreshTable
    capabilities: Capabilities

    @property
    def state(self) -> TopicState:
        return self.table.state

    def headers(self, version: int) -> dict[str, str]:
        """Return the headers of an answer about a version."""
        found = {VERSION_HEADER: str(version)}
        if self.capabilities.header is not None:
            found[CAPABILITIES_HEADER] = self.capabilities.header
        if self.table.as_of_ms is not None:
            found[AS_OF_HEADER] = datetime.fromtimestamp(self.table.as_of_ms / 1000, UTC).isoformat(
                timespec="milliseconds"
            )
        return found

    async def run(self, work: Callable[[ObjectStore], ResultT]) -> ResultT:
        """Return what ``work`` returns in a thread. Raise ``BackOff`` where the store fails."""
        engine = engine_of(self.request)
        try:
            return await engine.table_pool.run(work, engine.table_store)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return the log of topic {self.topic!r}: {problem.detail}.") from problem

    async def files(self, version: int, *, are_read: bool = True) -> TableFiles:
        """Return the table at a version (``files_at``)."""
        now_ms = gateway_of(self.request).clock.now_ms()
        return await self.run(lambda store: files_at(store, self.state, version, now_ms, are_read=are_read))

    async def version(self, number: int | None, timestamp: str | None) -> int:
        """Return the version that the number or the time names; neither: the newest."""
        if number is not None and timestamp is not None:
            raise refused("Give version or timestamp.", [("/timestamp", "can't be given with version")])
        if timestamp is None:
            return self.state.version if number is None else number
        at_ms = _time_ms(timestamp)
        return min(self.state.version, await self.run(lambda store: version_at(store, self.topic, at_ms)))


@router.get(TABLE_PATH + "/version")
@needs(Need("Read", "topic"))
async def get_version(request: Request, query: Annotated[VersionQuery, Query()]) -> Response:
    """Return a table's newest version, or the first one of a time or later, in a header."""
    asked = await _asked(request)
    version = asked.state.version
    if query.startingTimestamp is not None:
        at_ms = _time_ms(query.startingTimestamp)
        version = await asked.run(partial(_version_from, topic=asked.topic, at_ms=at_ms, newest=version))
    return Response(b"", 200, asked.headers(version), media_type=MEDIA_TYPE.decode())


@router.get(TABLE_PATH + "/metadata")
@needs(Need("Read", "topic"))
async def get_metadata(request: Request, query: Annotated[MetadataQuery, Query()]) -> Response:
    """Return a table's protocol and metadata."""
    asked = await _asked(request)
    with await _reserved(asked):
        files = await asked.files(await asked.version(query.version, query.timestamp))
        body = msgspec.json.Encoder().encode_lines(head_lines(files, asked.capabilities))
    return Response(body, 200, asked.headers(files.version), media_type=MEDIA_TYPE.decode())


@router.post(TABLE_PATH + "/query")
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def query_table(request: Request, wanted: TableQuery = EVERYTHING) -> ASGIApp:
    """Return a table's files at a version, or its changes since one, each with a URL."""
    asked = await _asked(request)
    await note_signatures(request, asked.topic, 0)
    reservation = await _reserved(asked)
    try:
        sign = await _signing(asked)
        if wanted.startingVersion is not None:
            files, pieces = await _changes(asked, wanted, sign)
        else:
            files, pieces = await _snapshot(asked, wanted, sign)
    except BaseException:
        reservation.release()
        raise

    async def check() -> None:
        lost = await standing_of(request).unreadable([asked.topic])
        note_denials(request, lost.values())
        for error in lost.values():
            raise error

    async def give(size_bytes: int, count: int) -> None:
        quota_charges.charge_fetched_bytes(request, size_bytes)
        await note_signatures(request, asked.topic, count)

    return LinesResponse(
        pieces,
        headers=asked.headers(files.version),
        pool=engine_of(request).table_pool,
        reservation=reservation,
        check=check,
        give=give,
    )


async def _snapshot(asked: _Asked, wanted: TableQuery, sign: Sign) -> tuple[TableFiles, Iterator[Piece]]:
    token = None if wanted.pageToken is None else token_of(wanted.pageToken)
    version = await asked.version(wanted.version, wanted.timestamp) if token is None else token.version
    files = await asked.files(version)
    is_named = wanted.version is not None or wanted.timestamp is not None
    named_at_ms = await asked.run(partial(_time_of, topic=asked.topic, version=files.version)) if is_named else None
    find_page = None
    if token is not None or wanted.maxFiles is not None:
        after, count = None if token is None else token.after, wanted.maxFiles or FILES_MAX
        find_page = partial(FilesPage, files, after, count)
    return files, snapshot(files, asked.capabilities, sign, wanted.hints(), named_at_ms, find_page=find_page)


async def _changes(asked: _Asked, wanted: TableQuery, sign: Sign) -> tuple[TableFiles, Iterator[Piece]]:
    first = wanted.startingVersion
    if first is None or (wanted.version, wanted.timestamp) != (None, None):
        raise refused("Give startingVersion alone.", [("/startingVersion", "can't be given with version or timestamp")])
    newest = asked.state.version
    end = newest if wanted.endingVersion is None else min(newest, wanted.endingVersion)
    if end < first <= newest:
        raise refused(
            "endingVersion is below startingVersion.", [("/endingVersion", "must not be below startingVersion")]
        )
    page = ChangesPage.of(first, end, wanted.maxFiles, wanted.pageToken)
    files = await asked.files(first, are_read=False)
    return files, changes(engine_of(asked.request).table_store, files, asked.capabilities, sign, page)


async def _asked(request: Request) -> _Asked:
    topic = topic_asked(request)
    capabilities = capabilities_of(header_text(request, CAPABILITIES_HEADER.encode()))
    return _Asked(request, topic, await engine_of(request).tables.fresh(topic), capabilities)


async def _reserved(asked: _Asked) -> Reservation:
    """Reserve the memory for reading a table's log. Raise ``BackOff`` (``OVERLOADED``)."""
    memory, state = answer_memory(asked.request), asked.state
    count = state.segment_count + state.archive.segment_count
    size_bytes = min(RESERVED_BYTES + count * _ROW_BYTES, memory.largest_bytes)
    return await memory.reserve_in_turn(size_bytes, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX)


async def _signing(asked: _Asked) -> Sign:
    gateway = gateway_of(asked.request)
    store = await asked.run(signs)
    if store is not None:
        return StoreUrls(store, asked.topic, gateway.clock).sign
    key = await engine_of(asked.request).producer_ids.key_for(PURPOSE)
    return GatewayUrls(base_url(asked.request), key, asked.topic, caller_of(asked.request), gateway.clock).sign


def _time_ms(text: str) -> int:
    """Return a time of the protocol ("Timestamp Format": ISO 8601 in UTC) in ms since the epoch. Raise ``RequestRefused``."""
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        what = "must be a time like 2026-01-31T00:00:00Z"
        raise refused(f"The time {what}.", [("timestamp", what)]) from None


def _version_from(store: ObjectStore, *, topic: str, at_ms: int, newest: int) -> int:
    """Return the first version that the log has of this time or later. Raise ``RequestRefused`` if there is none yet."""
    log = ListedLog.of(store.list(layout.log_prefix(topic)))
    found = [version for version, ms in log.commits.items() if ms >= at_ms and log.first <= version <= newest]
    if not found:
        raise RequestRefused(f"Topic {topic!r} has no version of this time or later.", code=ErrorCode.INVALID_REQUEST)
    return min(found)


def _time_of(store: ObjectStore, *, topic: str, version: int) -> int:
    """Return when the store got a version, in ms since the epoch; 0 if its commit is gone."""
    try:
        return store.head(layout.commit_key(topic, version)).modified_at_ms
    except ObjectMissing:
        return 0
