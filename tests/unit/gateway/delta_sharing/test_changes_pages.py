"""Pages of changes: each change once, in the order of the log, whatever their number in a commit and in a page."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from types import SimpleNamespace
from typing import Any, Final

import pytest

from gateway.delta_sharing.actions import Capabilities, SignedUrl
from gateway.delta_sharing.changes import changes
from gateway.delta_sharing.pages import ChangesPage, token_of
from log_format import layout
from log_format.errors import RequestRefused
from log_format.stores.memory import MemoryStore

TOPIC: Final = "orders"
FIRST, LAST = 3, 9
FILES: Final = {3: 1, 4: 3, 5: 0, 6: 2, 7: 0, 8: 4, 9: 1}
"""Number of files by version: versions 5 and 6 change the metadata, too."""
METADATA: Final[Any] = {"id": "one", "name": TOPIC, "schemaString": "{}", "partitionColumns": [], "configuration": []}
PARQUET: Final = Capabilities("parquet", False, None)


def _commit(version: int) -> bytes:
    lines: list[Any] = [{"commitInfo": {"engineInfo": "tidelog/0", "timestamp": version, "txnId": f"t{version}"}}]
    if version in (5, 6):
        described = METADATA | {"name": f"{TOPIC}{version}", "configuration": {}, "format": {"provider": "parquet"}}
        lines.append({"metaData": described | {"createdTime": 1}})
    for number in range(FILES[version]):
        path = f"segments/{version}-{number}.parquet"
        if number % 2:
            lines.append({"remove": {"path": path, "dataChange": True, "size": 10}})
        else:
            lines.append({"add": {"path": path, "dataChange": True, "size": 10, "modificationTime": 1}})
        lines.append({"add": {"path": f"{path}.merged", "dataChange": False, "size": 10, "modificationTime": 1}})
    return "\n".join(map(json.dumps, lines)).encode()


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    made = MemoryStore()
    for version in FILES:
        made.put(layout.commit_key(TOPIC, version), _commit(version))
    return made


def _page(store: MemoryStore, page: ChangesPage) -> tuple[list[Any], str | None, int, int]:
    """The lines behind protocol and metadata, the next page's token, and the bytes and the number of files that are told."""
    files: Any = SimpleNamespace(topic=TOPIC, version=FIRST, metadata=METADATA, protocol={})
    made = list(changes(store, files, PARQUET, lambda path: SignedUrl(path, 7), page))
    lines = [line for piece in made for line in piece.lines]
    head, rest = lines[:2], lines[2:]
    assert [next(iter(line)) for line in head] == ["protocol", "metaData"]
    assert head[1]["metaData"]["name"] == TOPIC
    token = rest.pop()["endStreamAction"]["nextPageToken"] if rest and "endStreamAction" in rest[-1] else None
    return rest, token, sum(piece.file_bytes for piece in made), sum(piece.file_count for piece in made)


def _is_file(line: Any) -> bool:
    return "metaData" not in line


@pytest.mark.parametrize("count", [1, 2, 3, 4, 10, 11, 12, 100])
def test_pages_together_are_the_whole_answer(store: MemoryStore, count: int) -> None:
    """Each page but the last has as many files as were asked for, and none is empty."""
    whole, token, _, _ = _page(store, ChangesPage.of(FIRST, LAST, None, None))
    assert token is None
    assert sum(map(_is_file, whole)) == sum(FILES.values())
    assert [line["metaData"]["version"] for line in whole if "metaData" in line] == [5, 6]
    found: list[Any] = []
    page = ChangesPage.of(FIRST, LAST, count, None)
    while True:
        lines, token, file_bytes, file_count = _page(store, page)
        assert (file_bytes, file_count) == (10 * file_count, sum(map(_is_file, lines)))
        found += lines
        if token is None:
            break
        assert file_count == count
        # A commit that came meanwhile is in none of the pages.
        page = ChangesPage.of(FIRST, LAST + 5, count, token)
    assert 0 < file_count <= count
    assert found == whole


def test_a_token_is_for_one_request() -> None:
    """Neither for another beginning, nor for versions behind the end that is asked for, nor for pages of a version."""
    token = ChangesPage.of(FIRST, LAST, 1, None).token(8, 2)
    assert ChangesPage.of(FIRST, LAST, 5, token) == ChangesPage(FIRST, LAST, 8, 2, 5)
    for first, end in ((FIRST + 1, LAST), (FIRST, LAST - 1)):
        with pytest.raises(RequestRefused, match="another request"):
            ChangesPage.of(first, end, None, token)
    with pytest.raises(RequestRefused, match="pageToken"):
        token_of(token)
    deep = urlsafe_b64encode(b"[1,2,3,0," + b"[" * 1500 + b"]" * 1500 + b"]").decode().rstrip("=")
    for text in ("", "e30", "WzEsWzEsImEiXV0", "WzEsMiwzLC0xXQ", deep):
        with pytest.raises(RequestRefused, match="pageToken"):
            ChangesPage.of(1, 9, None, text)
