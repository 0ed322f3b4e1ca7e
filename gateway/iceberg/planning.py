"""Planning of scans by the gateway: a client gets the files that it has to read, without reading a manifest.

A plan is complete with its answer, which has its first page; further pages are fetched by their tokens (``plans``). The stored
bytes of the files that an answer names count as fetched.

Source: Iceberg's "REST Catalog API", ``planTableScan``, ``fetchPlanningResult``, ``cancelPlanning``, ``fetchScanTasks``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.gateway import answer_memory, engine_of, gateway_of, standing_of
from gateway.http.parameters import path_text
from gateway.iceberg.body import body_of
from gateway.iceberg.credentials import is_asked_for
from gateway.iceberg.delegation import SIGNING, root_for
from gateway.iceberg.plans import (
    REQUEST_BYTES_MAX,
    TOKEN_CHARACTERS_MAX,
    Page,
    ScanRequest,
    file_bytes,
    page_of,
    pages_of,
    scan_of,
    scan_request,
    token_of,
    tokens_with,
    version_asked,
)
from gateway.iceberg.route import IcebergRoute, Large
from gateway.iceberg.tables import AS_OF, TABLE, topic_asked
from gateway.iceberg_problem import PLAN_TASKS
from gateway.problem import refused
from gateway.quotas.limits import FETCH_BYTES
from gateway.quotas.spending import spends
from gateway.routes.administration import note_denials
from gateway.routes.quota_charges import charge_fetched_bytes
from log_format.checkpoints.table_files import files_at, with_files_of
from log_format.errors import DECODE_ERRORS, BackOff, ErrorCode, RequestRefused, StoreUnavailable
from log_format.iceberg.schema import table_schema
from log_format.layout import topic_root
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

router = APIRouter(route_class=IcebergRoute, include_in_schema=False)

_PLAN: Final = TABLE + "/plan"
_PLAN_OF_ID: Final = _PLAN + "/{plan}"
_RESERVED_BYTES: Final = 8 * 1024 * 1024
"""Memory of a piece of a checkpoint, decoded, and of a page."""
_ROW_BYTES: Final = 200
"""Approximate bytes of a file's row in a checkpoint, whose object is in memory while it is read."""
_TASK_BYTES: Final = 2_000
"""Approximate bytes of a file's task as objects."""
_WAITING_MAX: Final = 1_000
_ID_CHARACTERS_MAX: Final = 4_000
_WITHOUT_ID: Final = "too-long"
"""Id of a plan whose request has no place in a path: its result can't be fetched again."""


class _Task(msgspec.Struct, rename="kebab"):
    plan_task: str


ResultT = TypeVar("ResultT")
_decode_task: Final = msgspec.json.Decoder(_Task).decode


@router.post(_PLAN)
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def plan_scan(request: Request) -> Any:
    """Return the files of a scan, with all records that were acknowledged before unless it names a snapshot."""
    topic = topic_asked(request, "Read")
    asked = scan_request(await body_of(request, REQUEST_BYTES_MAX))
    state, as_of_ms = await engine_of(request).tables.fresh(topic)
    named = version_asked(asked)
    version = state.version if named is None else named
    page = Page(state.existing_id, version, 0, pages_of(await _file_count(request, state, version), asked), asked)
    found = await _scanned(request, state, page)
    return _answer(_with_plan(found, page) | ({} if as_of_ms is None else {AS_OF: str(as_of_ms)}), asked)


@router.get(_PLAN_OF_ID)
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def get_plan(request: Request) -> Any:
    """Return what a plan's answer was."""
    topic = topic_asked(request, "Read")
    page = page_of(path_text(request, "plan"))
    state, _ = await engine_of(request).tables.fresh(topic)
    if page is None or page.topic_id != state.topic_id:
        raise _unknown("There is no such plan.")
    return _answer(_with_plan(await _scanned(request, state, page), page), page.request)


@router.delete(_PLAN_OF_ID)
@needs(Need("Read", "topic"))
async def cancel_plan(request: Request) -> Any:
    """Do nothing: no gateway holds anything for a plan."""
    topic_asked(request, "Read")


@router.post(TABLE + PLAN_TASKS)
@needs(Need("Read", "topic"))
@spends(FETCH_BYTES)
async def get_tasks(request: Request) -> Any:
    """Return a page of a plan."""
    topic = topic_asked(request, "Read")
    try:
        token = _decode_task(await body_of(request, 2 * TOKEN_CHARACTERS_MAX)).plan_task
    except DECODE_ERRORS as problem:
        raise refused(f"The body names no plan task: {problem}.") from None
    page = page_of(token) if len(token) <= TOKEN_CHARACTERS_MAX else None
    state, _ = await engine_of(request).tables.fresh(topic)
    if page is None or page.topic_id != state.topic_id:
        raise _unknown("There is no such plan task: plan the scan again.")
    return _answer(await _scanned(request, state, page), page.request)


async def _file_count(request: Request, state: TopicState, version: int) -> int:
    """Return how many files the table has at a version, which may be many more than at the newest."""
    if version == state.version:
        return _count(state)
    now_ms = gateway_of(request).clock.now_ms()
    return await _in_pool(request, state, 0, lambda store: files_at(store, state, version, now_ms).file_count)


def _count(state: TopicState) -> int:
    return state.manifest.segment_count() + state.archive.segment_count


async def _scanned(request: Request, state: TopicState, page: Page) -> dict[str, Any]:
    """Return a page's tasks, and the tokens of further pages."""
    now_ms = gateway_of(request).clock.now_ms()
    root_uri = f"{root_for(request)}/{topic_root(state.topic)}"

    def run(store: ObjectStore) -> dict[str, Any]:
        scan = scan_of(table_schema(state.columns), page.request, root_uri)
        found = with_files_of(lambda files: list(scan.tasks(files, page)), store, state, page.version, now_ms)
        return {"file-scan-tasks": found}

    page_bytes = _count(state) // page.count * (_TASK_BYTES + file_bytes(page.request))
    made = await _in_pool(request, state, page_bytes, run)
    await _check(request, state.topic)
    if not is_asked_for(request, SIGNING):  # a signature counts what it lets the client read
        sizes = (task["data-file"]["file-size-in-bytes"] for task in made["file-scan-tasks"])
        charge_fetched_bytes(request, sum(sizes))
    tokens = tokens_with(page)
    return made | {"plan-tasks": tokens} if tokens else made


async def _in_pool(
    request: Request, state: TopicState, size_bytes: int, work: Callable[[ObjectStore], ResultT]
) -> ResultT:
    """Return what ``work`` makes of the table's log in a thread. ``size_bytes``: about the memory of what it makes."""
    engine, memory = engine_of(request), answer_memory(request)
    wanted = min(_RESERVED_BYTES + _count(state) * _ROW_BYTES + size_bytes, memory.largest_bytes)
    with await memory.reserve_in_turn(wanted, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX):
        try:
            return await engine.table_pool.run(work, engine.table_store)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return the log of topic {state.topic!r}: {problem.detail}.") from problem


async def _check(request: Request, topic: str) -> None:
    lost = await standing_of(request).unreadable([topic])
    note_denials(request, lost.values())
    for error in lost.values():
        raise error


def _with_plan(found: dict[str, Any], page: Page) -> dict[str, Any]:
    token = token_of(page)
    plan_id = token if len(token) <= _ID_CHARACTERS_MAX else _WITHOUT_ID
    return {"status": "completed", "plan-id": plan_id} | found


def _answer(found: dict[str, Any], asked: ScanRequest) -> Large:
    tokens: list[str] = found.get("plan-tasks", [])
    return Large(lambda: found, file_bytes(asked) * (1 + len(found["file-scan-tasks"])) + sum(map(len, tokens)))


def _unknown(detail: str) -> RequestRefused:
    return RequestRefused(detail, code=ErrorCode.VERSION_GONE)
