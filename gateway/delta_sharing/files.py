"""A table's file at its signed URL, whole or a range of it, for stores that sign no URLs.

The URL is the credential: its signature says for whom and until when. The caller's right to read the topic is judged again, so
that a URL is worth nothing once the right or the token is taken away.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.admission_check import AdmissionCheck
from gateway.access.needs import open_to_all
from gateway.asgi.compression import NO_COMPRESSION
from gateway.delta_sharing.signed_files import (
    FILES,
    GRANT_CHARACTERS_MAX,
    HEAD_ONLY,
    PURPOSE,
    Grant,
    granted,
    is_file_path,
)
from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.engine.pool import Pool
from gateway.gateway import answer_memory, engine_of, gateway_of
from gateway.http import fields
from gateway.http.parameters import path_text
from gateway.memory_budget import Reservation
from gateway.routes.typed_route import TypedRoute
from log_format.errors import BackOff, ErrorCode, ObjectMissing, RequestRefused, StoreUnavailable
from log_format.layout import topic_root
from log_format.store import ObjectStore

router = APIRouter(route_class=TypedRoute, include_in_schema=False)

PIECE_BYTES: Final = 1024 * 1024
_WAITING_MAX: Final = 1_000
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class SignedQuery(fields.Parameters):
    """The signature of a URL (``signed_files``)."""

    model_config = ConfigDict(extra="ignore")

    grant: Annotated[str, Field(max_length=GRANT_CHARACTERS_MAX)] = ""
    signature: Annotated[str, Field(max_length=256)] = ""


@router.get(FILES + "{topic}/{file:path}")
@open_to_all
async def get_file(request: Request, query: Annotated[SignedQuery, Query()]) -> ASGIApp:
    """Return a file, or a range of it."""
    gateway, engine = gateway_of(request), engine_of(request)
    topic, path = path_text(request, "topic"), path_text(request, "file")
    grant = granted(await engine.producer_ids.key_for(PURPOSE), topic, path, query.grant, query.signature)
    if grant is None or not is_file_path(path) or gateway.clock.now_ms() >= grant.expires_at_ms:
        raise RequestRefused(
            "This address is not one that a gateway of this cluster gave, or it has ended: ask for the table's files again.",
            code=ErrorCode.UNAUTHENTICATED,
        )
    await _check_right(request, topic, grant)
    if grant.only is not None and grant.only != (
        HEAD_ONLY if request.method == "HEAD" else request.headers.get("range")
    ):
        raise RequestRefused(
            "This address is for another request: ask for one for this range of the file.",
            code=ErrorCode.UNAUTHENTICATED,
        )
    key = f"{topic_root(topic)}{path}"
    try:
        info = await engine.table_pool.run(engine.table_store.head, key)
    except ObjectMissing:
        raise RequestRefused(
            "The file is deleted: ask for the table's files again.", code=ErrorCode.NOT_FOUND, topic=topic
        ) from None
    except StoreUnavailable as problem:
        raise BackOff(f"The store did not return the file: {problem.detail}.") from problem
    span = _range(request.headers.get("range"), info.size_bytes)
    memory = answer_memory(request)
    held = await memory.reserve_in_turn(PIECE_BYTES, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX)
    return _FileResponse(engine.table_store, key, span, engine.table_pool, held)


async def _check_right(request: Request, topic: str, grant: Grant) -> None:
    gateway = gateway_of(request)
    standing = AdmissionCheck(grant.caller, gateway.rights, gateway.authentication, gateway.clock)
    for error in (await standing.unreadable([topic])).values():
        raise error


class _Span(NamedTuple):
    """Bytes ``[start, end)`` of an object; ``is_part``: whether the client asked for a range."""

    start: int
    end: int
    size_bytes: int
    is_part: bool


def _range(header: str | None, size_bytes: int) -> _Span:
    """Return what the header ``Range`` asks for (RFC 9110, section 14). Several ranges, and what is none, are all of the object.
    Raise ``RequestRefused`` (416) for a range beyond its end."""
    match = _RANGE.fullmatch(header or "")
    if match is None or match.groups() == ("", ""):
        return _Span(0, size_bytes, size_bytes, is_part=False)
    first, last = match.groups()
    start = int(first) if first else max(0, size_bytes - int(last))
    end = min(size_bytes, int(last) + 1) if first and last else size_bytes
    if start >= end:
        raise RequestRefused(
            f"The file has {size_bytes} bytes.", code=ErrorCode.INVALID_REQUEST, status=416, retryable=False
        )
    return _Span(start, end, size_bytes, is_part=True)


class _FileResponse:
    """Bytes of an object, read in pieces; each is sent before the next is read."""

    def __init__(self, store: ObjectStore, key: str, span: _Span, pool: Pool, held: Reservation) -> None:
        self._store = store
        self._key = key
        self._span = span
        self._pool = pool
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        del receive
        with self._held:
            span = self._span
            headers = [
                (b"content-type", b"application/vnd.apache.parquet"),
                (b"content-length", b"%d" % (span.end - span.start)),
                (b"accept-ranges", b"bytes"),
                (b"cache-control", b"private, no-store"),
            ]
            if span.is_part:
                headers.append((b"content-range", b"bytes %d-%d/%d" % (span.start, span.end - 1, span.size_bytes)))
            status = 206 if span.is_part else 200
            begun = {"type": "http.response.start", "status": status, "headers": headers, NO_COMPRESSION: True}
            if scope["method"] == "HEAD":
                await send(begun)
                await send({"type": "http.response.body", "body": b""})
                return
            start = span.start
            piece = await self._read(start)
            await send(begun)
            while piece:
                start += len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": start < span.end})
                piece = await self._read(start) if start < span.end else b""

    async def _read(self, start: int) -> bytes:
        end = min(start + PIECE_BYTES, self._span.end)
        try:
            return await self._pool.run(self._store.get_range, self._key, start, end)
        except (ObjectMissing, StoreUnavailable) as problem:
            raise BackOff(f"The store did not return the file: {problem}.") from problem
