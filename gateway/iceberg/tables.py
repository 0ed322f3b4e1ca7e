"""Namespaces and tables: listing and loading.

A table is listed if the caller may Describe the topic, and loaded if it may Read it. Loading gives no credential of the store
unless one is asked for and can be had; the client then needs its own (docs/iceberg.md).

Source: Iceberg's "REST Catalog API".
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.engine.iceberg_tables import LoadedTable
from gateway.gateway import allowing, engine_of, gateway_of, require
from gateway.http.parameters import parse_topic, path_text
from gateway.iceberg.delegation import access_properties, root_for
from gateway.iceberg.route import (
    NAMESPACES,
    TOPICS,
    IcebergRoute,
    Large,
    dotted,
    known_namespace,
    namespace_asked,
    query_of,
)
from gateway.iceberg_problem import PREFIX
from gateway.problem import refused
from log_format.errors import ErrorCode, RequestRefused
from log_format.iceberg.metadata import table_metadata
from log_format.topic.state import TopicState

router = APIRouter(route_class=IcebergRoute, include_in_schema=False)

_NAMESPACES: Final = PREFIX + "/v1/namespaces"
_NAMESPACE: Final = _NAMESPACES + "/{namespace}"
_TABLES: Final = _NAMESPACE + "/tables"
TABLE: Final = _TABLES + "/{table}"
"""Path of a table."""
PAGE_MAX: Final = 1_000
TABLES_MAX: Final = 100_000
"""Most tables in a list that is not asked for in pages."""
LIST_AGE_MS: Final = 10_000
_ENTRY_BYTES: Final = 64
_SNAPSHOT_BYTES: Final = 600
_COLUMN_BYTES: Final = 300
AS_OF: Final = "tidelog.complete-until-ms"
"""Property of a table whose topic could not be drained: records that were acknowledged later may be missing."""


@router.get(_NAMESPACES)
@needs()
async def list_namespaces(request: Request) -> Any:
    """List the namespaces: none is below another."""
    parent = query_of(request).get("parent", "")
    return {"namespaces": [] if parent and known_namespace(parent) else [[name] for name in NAMESPACES]}


@router.head(_NAMESPACE)
@needs()
async def namespace_exists(request: Request) -> Any:
    """Tell whether there is such a namespace."""
    namespace_asked(request)


@router.get(_NAMESPACE)
@needs()
async def get_namespace(request: Request) -> Any:
    """Return a namespace, without the place of the store: a caller needs no right to ask."""
    return {"namespace": [namespace_asked(request)], "properties": {}}


@router.get(_TABLES)
@needs(Need("Describe", "topic"))
async def list_tables(request: Request) -> Any:
    """List the topics that the caller may describe."""
    namespace_asked(request)
    query = query_of(request)
    is_paged = "pageToken" in query or "pageSize" in query
    limit = min(_page_size(query.get("pageSize", "")), PAGE_MAX)
    shown, administration = allowing(request, "Describe", "topic"), engine_of(request).administration
    names: list[str] = []
    after: str | None = query.get("pageToken", "")
    while after is not None:
        page = await administration.page("", after, limit, shown, age_ms_max=LIST_AGE_MS)
        names += [state.topic for state in page.topics]
        after = page.next_after
        if is_paged or len(names) >= TABLES_MAX:
            break
    listed: dict[str, Any] = {"identifiers": [{"namespace": [TOPICS], "name": name} for name in names]}
    if is_paged:
        listed["next-page-token"] = after
    return Large(lambda: listed, sum(_ENTRY_BYTES + len(name) for name in names))


@router.head(TABLE)
@needs(Need("Describe", "topic"))
async def table_exists(request: Request) -> Any:
    """Tell whether there is such a table."""
    topic = topic_asked(request, "Describe")
    await engine_of(request).administration.describe(topic)


@router.get(TABLE)
@needs(Need("Read", "topic"))
async def load_table(request: Request) -> Any:
    """Return a table's metadata, with all records that were acknowledged before."""
    topic = topic_asked(request, "Read")
    only_refs = query_of(request).get("snapshots") == "refs"
    loaded = await engine_of(request).iceberg.load(topic)
    given = await access_properties(request, topic)
    store_uri, now_ms = root_for(request) + "/", gateway_of(request).clock.now_ms()
    snapshots = _with_refs(loaded) if only_refs else loaded.snapshots
    properties = {} if loaded.as_of_ms is None else {AS_OF: str(loaded.as_of_ms)}

    def made() -> Any:
        metadata = table_metadata(
            loaded.state, store_uri, snapshots, loaded.pinned, properties=properties, now_ms=now_ms
        )
        answer: dict[str, Any] = {"metadata": metadata, "config": given}
        if given:
            answer["storage-credentials"] = [{"prefix": f"{metadata['location']}/", "config": given}]
        return answer

    size_bytes = _size_bytes(loaded.state, len(snapshots) + len(loaded.pinned))
    return Large(made, size_bytes, is_secret=bool(given))


def _with_refs(loaded: LoadedTable) -> list[Any]:
    pinned = {pin.version for pin in loaded.state.pins}
    return [one for one in loaded.snapshots[:-1] if one.version in pinned] + loaded.snapshots[-1:]


def _size_bytes(state: TopicState, snapshot_count: int) -> int:
    return 4_096 + _SNAPSHOT_BYTES * snapshot_count + _COLUMN_BYTES * state.columns.width


def topic_asked(request: Request, operation: Any) -> str:
    """Return the topic that the path names. Raise ``Unauthorized``; ``RequestRefused`` (404) for an unknown namespace, or what
    can't name a topic.

    A table of an unknown namespace is an unknown table: Spark asks for ``topics.orders.snapshots`` so, and then looks for the
    table's metadata itself.
    """
    namespace, topic = path_text(request, "namespace"), path_text(request, "table")
    if namespace not in NAMESPACES:
        raise RequestRefused(
            f"Table does not exist: {dotted(namespace)}.{topic[:100]}. Topics are in the namespace {TOPICS!r}, "
            "and a topic's name with dots is one name.",
            code=ErrorCode.UNKNOWN_TOPIC,
        )
    require(request, operation, "topic", topic)
    return parse_topic(topic)


def _page_size(text: str) -> int:
    if not text:
        return PAGE_MAX
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise refused("pageSize must be a number from 1 on.", [("pageSize", "must be a number from 1 on")])
    return int(text)
