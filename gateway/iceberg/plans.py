"""Plans of scans: the files of a table at a version in which a filter may find rows, told in pages.

1. A gateway remembers no plan. A page's token has the request, the version and the page, so each gateway of the cluster returns
   any page, and rights are judged for each. It has nothing that its client did not say or may not know, so it is not signed.
2. A file's page follows from its path, not from its place in the log: the log's order changes with each checkpoint.
3. Files come from the table's log, as it names them at the version; nothing of what is published for other readers is needed.

Source: Iceberg's "REST Catalog API", ``PlanTableScanRequest``, ``ScanTasks``, ``DataFile``.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from gateway.iceberg.filters import Filter, Names, filter_of
from gateway.problem import refused
from log_format import layout
from log_format.delta.actions import plain_path
from log_format.delta.table_schema import schema_string
from log_format.errors import DECODE_ERRORS, CorruptData, ErrorCode, RequestRefused
from log_format.iceberg.data_file import SORT_ORDER_ID
from log_format.iceberg.schema import Path, TableSchema
from log_format.records.data_skipping import FileFacts, columns_by_name, member_at
from log_format.records.typed_columns import record_schema

FILES_IN_PAGE: Final = 1_000
"""Files of a page, on average, if the filter leaves out none: some 400 KB of text."""
FILE_BYTES: Final = 600
"""About how large a file is as JSON, and as an object."""
REQUEST_BYTES_MAX: Final = 256 * 1024
"""Largest request to plan. Each file's task may have the whole filter, so pages have fewer files the longer it is."""
TOKEN_CHARACTERS_MAX: Final = 2 * REQUEST_BYTES_MAX
_STATISTICS_BYTES: Final = 200
"""About how large the statistics of a field are as JSON."""
_SMALL_PAGE: Final = 100
"""How many more files than planned a page may have, since hashes spread them."""
_PAGES_MAX: Final = 100
"""Each page reads the log of the table anew; of a table with more than 100,000 files the pages are longer."""
_TOKENS_CHARACTERS_MAX: Final = 1_000_000
"""Most characters of the tokens in an answer: with more, each page has the token of the next one only."""
_CLONED: Final = 1 << 62
"""Id of the snapshot of version 0."""


class ScanRequest(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """What a client wants to scan: the request's members, as Iceberg has them. Others are ignored."""

    snapshot_id: int | None = None
    select: list[str] | None = None
    filter: Any = None
    case_sensitive: bool = True
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    stats_fields: list[str] | None = None


class Page(msgspec.Struct, frozen=True, array_like=True):
    """A page of a plan. ``number``: below ``count``."""

    topic_id: str
    version: int
    number: int
    count: int
    request: ScanRequest


class _Statistics(msgspec.Struct):
    numRecords: int  # noqa: N815 - Delta's names
    minValues: dict[str, Any] = {}  # noqa: N815
    maxValues: dict[str, Any] = {}  # noqa: N815
    nullCount: dict[str, Any] = {}  # noqa: N815


_decode_request: Final = msgspec.json.Decoder(ScanRequest).decode
_decode_page: Final = msgspec.json.Decoder(Page).decode
_decode_statistics: Final = msgspec.json.Decoder(_Statistics, float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder().encode


def scan_request(data: bytes) -> ScanRequest:
    """Return the request that a body is. Raise ``RequestRefused`` for one that is malformed or scans increments."""
    try:
        found = _decode_request(data or b"{}")
    except DECODE_ERRORS as problem:
        raise refused(f"The body is no request to plan a scan: {problem}.") from None
    if found.start_snapshot_id is not None or found.end_snapshot_id is not None:
        raise refused(
            "Scans from one snapshot to another are not offered: stream the topic, or scan offsets.",
            [("/start-snapshot-id", "is not offered")],
        )
    return found


def version_asked(request: ScanRequest) -> int | None:
    """Return the version of the snapshot that a request names; None if it names none."""
    return 0 if request.snapshot_id == _CLONED else request.snapshot_id


def file_bytes(request: ScanRequest) -> int:
    """Return about how large a file is in the plan of a request."""
    filter_bytes = 0 if request.filter is None else len(_encode(request.filter))
    return FILE_BYTES + filter_bytes + _STATISTICS_BYTES * len(request.stats_fields or ())


def _files_in_page(request: ScanRequest) -> int:
    return max(1, FILES_IN_PAGE * FILE_BYTES // file_bytes(request))


def pages_of(file_count: int, request: ScanRequest) -> int:
    """Return in how many pages a table with so many files is told."""
    return min(_PAGES_MAX, max(1, -(-file_count // _files_in_page(request))))


def token_of(page: Page) -> str:
    """Return a page's token."""
    return urlsafe_b64encode(_encode(page)).decode().rstrip("=")


def tokens_with(page: Page) -> list[str]:
    """Return the tokens of further pages that a page's answer has: the first one's all others, unless that is too long."""
    others = range(page.number + 1, page.count)
    is_chained = len(token_of(page)) * page.count > _TOKENS_CHARACTERS_MAX
    if page.number and not is_chained:
        return []
    return [token_of(msgspec.structs.replace(page, number=one)) for one in (others[:1] if is_chained else others)]


def page_of(token: str) -> Page | None:
    """Return the page that a token is of; None if it is none."""
    try:
        found = _decode_page(urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)))
    except (*DECODE_ERRORS, ValueError):  # base64 raises the latter
        return None
    return found if 0 <= found.number < found.count <= _PAGES_MAX and found.version >= 0 else None


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan of a table."""

    schema: TableSchema
    root_uri: str
    """URI of the table, ending with a slash."""
    filter: Filter | None
    shown: tuple[Path, ...]
    """Columns whose statistics are told with each file."""

    def tasks(self, files: Iterable[pa.StructArray], page: Page) -> Iterator[dict[str, Any]]:
        """Yield the files of a page in which rows may count (``FileScanTask``). ``files``: all of the table (``adds``).

        Raises ``CorruptData``, what ``files`` raises, and ``RequestRefused`` for a page of more files than a gateway would put
        into one.
        """
        count, count_max = 0, _SMALL_PAGE + 4 * _files_in_page(page.request)
        for adds in files:
            of_page = adds if page.count == 1 else adds.filter(_mask(adds.field("path"), page))
            count += len(of_page)
            if count > count_max and page.count < _PAGES_MAX:
                raise RequestRefused("No gateway told this page: it would be too long.", code=ErrorCode.VERSION_GONE)
            columns = (of_page.field(name).to_pylist() for name in ("path", "size", "stats"))
            for path, size_bytes, stats in zip(*columns, strict=True):
                task = self._task(path, size_bytes, stats)
                if task is not None:
                    yield task

    def _task(self, path: str, size_bytes: int, stats: str) -> dict[str, Any] | None:
        try:
            known = _decode_statistics(stats or "")
        except DECODE_ERRORS as problem:
            raise CorruptData(f"The statistics of {path} can't be read: {problem}.", object=path) from problem
        task: dict[str, Any] = {}
        if self.filter is not None:
            residual = self.filter.residual(FileFacts(msgspec.structs.asdict(known), {}))
            if residual is False:
                return None
            task["residual-filter"] = residual
        plain = plain_path(path)
        data_file: dict[str, Any] = {
            "spec-id": 0,
            "partition": [],
            "content": "data",
            "file-path": self.root_uri + plain,
            "file-format": "parquet",
            "file-size-in-bytes": size_bytes,
            "record-count": known.numRecords,
        }
        if plain.startswith(layout.SEGMENTS):
            data_file["sort-order-id"] = SORT_ORDER_ID
        if self.shown:
            data_file |= self._statistics(known)
        return {"data-file": data_file} | task

    def _statistics(self, known: _Statistics) -> dict[str, Any]:
        counts = {path: member_at(known.nullCount, path) for path in self.shown}
        nulls = {self.schema.ids[path]: count for path, count in counts.items() if isinstance(count, int)}
        return {
            "value-counts": _map(dict.fromkeys(nulls, known.numRecords)),
            "null-value-counts": _map(nulls),
            "lower-bounds": _map(self._bounds(known.minValues)),
            "upper-bounds": _map(self._bounds(known.maxValues)),
        }

    def _bounds(self, values: Mapping[str, Any]) -> dict[int, Any]:
        found = ((path, member_at(values, path)) for path in self.shown)
        return {
            self.schema.ids[path]: _bound(value, self.schema.types[path]) for path, value in found if value is not None
        }


def scan_of(schema: TableSchema, request: ScanRequest, root_uri: str) -> Scan:
    """Return the scan that a request asks for. Raise ``RequestRefused`` for unknown columns and malformed filters."""
    ids = {number: ".".join(path) for path, number in schema.ids.items()}
    columns = columns_by_name(schema_string(record_schema(schema.columns)))
    names = Names(ids, columns, is_case_sensitive=request.case_sensitive)
    for name in request.select or ():
        names.resolved(name, "/select")
    wanted = {names.resolved(name, "/stats-fields") for name in request.stats_fields or ()}
    return Scan(
        schema=schema,
        root_uri=root_uri,
        filter=None if request.filter is None else filter_of(request.filter, names),
        shown=tuple(path for path in schema.types if ".".join(path) in wanted),
    )


def _mask(paths: pa.Array, page: Page) -> pa.Array:
    return pa.array([zlib.crc32(path.encode()) % page.count == page.number for path in paths.to_pylist()])


def _map(values: Mapping[int, Any]) -> dict[str, Any]:
    return {"keys": list(values), "values": list(values.values())}


def _bound(value: Any, arrow: pa.DataType) -> Any:
    """Return one of Delta's bounds as Iceberg's JSON has it."""
    if pa.types.is_timestamp(arrow):
        return datetime.fromisoformat(value).isoformat(timespec="microseconds")
    if pa.types.is_floating(arrow):
        return float(value)
    return format(Decimal(str(value)), "f") if pa.types.is_decimal(arrow) else value
