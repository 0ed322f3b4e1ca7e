"""Pages of a plan: together they have each file once, whatever order the log has at each page."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pytest

from gateway.iceberg.plans import (
    FILES_IN_PAGE,
    Page,
    Scan,
    ScanRequest,
    file_bytes,
    page_of,
    pages_of,
    token_of,
    tokens_with,
)
from log_format.errors import RequestRefused
from log_format.iceberg.schema import table_schema
from log_format.records.typed_columns import TypedColumns

FILE_COUNT = 60


def shuffled() -> Iterator[pa.Array]:
    """A table's files in two pieces, in another order each time."""
    rows = [
        {"path": f"segments/{number}.parquet", "size": number, "stats": '{"numRecords":1}'}
        for number in range(FILE_COUNT)
    ]
    random.shuffle(rows)
    yield from (pa.array(rows[:20]), pa.array(rows[20:]))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_pages_have_each_file_once(count: int) -> None:
    """The order of files is another one at each page, as after a checkpoint."""
    scan = Scan(table_schema(TypedColumns()), "file:///t/", None, ())
    found = [
        task["data-file"]["file-path"]
        for number in range(count)
        for task in scan.tasks(shuffled(), Page("id", 1, number, count, ScanRequest()))
    ]
    assert sorted(found) == sorted(f"file:///t/segments/{number}.parquet" for number in range(FILE_COUNT))


def test_tokens_name_all_pages() -> None:
    """The first page names all others; with a long filter each names the next one, so that no answer grows with both."""
    for request in (ScanRequest(snapshot_id=3), ScanRequest(filter={"type": "in", "values": ["x" * 100] * 1000})):
        first = Page("id", 1, 0, 50, request)
        seen, waiting = [first], tokens_with(first)
        assert sum(map(len, waiting)) < 1_000_000
        while waiting:
            page = page_of(waiting.pop())
            assert page is not None
            seen.append(page)
            waiting += tokens_with(page)
        assert sorted(page.number for page in seen) == list(range(50))
        assert all(msgspec.structs.replace(page, number=0) == first for page in seen)


def test_a_long_table_has_longer_pages_not_more() -> None:
    """Since each reads the log anew."""
    counts, request = (0, 1, FILES_IN_PAGE, FILES_IN_PAGE + 1, 10**7), ScanRequest()
    assert [pages_of(count, request) for count in counts] == [1, 1, 1, 2, 100]


def test_a_long_filter_makes_short_pages() -> None:
    """Each file may come with the whole filter: an answer of 1,000 files with 200 KB each would take the gateway's memory."""
    request = ScanRequest(filter={"type": "in", "term": "offset", "values": list(range(30_000))})
    assert 150_000 < file_bytes(request) < 300_000
    assert pages_of(50, request) > 10
    assert file_bytes(ScanRequest(stats_fields=["offset"] * 30)) > 6_000


def test_a_page_that_no_gateway_told_is_refused() -> None:
    """A token is not signed, so a client may ask for all files of a long table at once."""
    scan = Scan(table_schema(TypedColumns()), "file:///t/", None, ())
    request = ScanRequest(filter={"type": "in", "term": "offset", "values": list(range(40_000))})
    with pytest.raises(RequestRefused, match="too long"):
        list(scan.tasks(iter([*shuffled(), *shuffled()]), Page("id", 1, 0, 1, request)))


@pytest.mark.parametrize("token", ["", "%", "e30", "bnVsbA", "\u00e9", token_of(Page("id", 1, 2, 2, ScanRequest()))])
def test_what_is_no_token_is_none(token: str) -> None:
    """Whatever a client sends."""
    assert page_of(token) is None
