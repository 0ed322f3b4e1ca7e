"""Pages of files: each file once, whatever order the log has at each page."""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from gateway.delta_sharing.pages import FilesPage, Key, token_of
from log_format.errors import RequestRefused

PATHS = [f"segments/{number}.parquet" for number in range(60)]


class Shuffled:
    """A table at version 7, whose log has its files in another order each time."""

    version = 7

    def adds(self) -> Iterator[pa.StructArray]:
        rows = [{"path": path} for path in random.sample(PATHS, len(PATHS))]
        yield from (pa.array(rows[:20]), pa.array(rows[20:]))


@pytest.mark.parametrize("count", [1, 7, 20, 59, 60, 61])
def test_pages_have_each_file_once(count: int) -> None:
    """And as many as were asked for, but for the last one; its number of files may be just that."""
    files: Any = Shuffled()
    found: list[str] = []
    after: Key | None = None
    while True:
        page = FilesPage(files, after, count)
        some = [path for adds in files.adds() for path in page.of(adds).field("path").to_pylist()]
        found += some
        if page.next_token is None:
            break
        assert len(some) == count
        token = token_of(page.next_token)
        assert token.version == 7
        after = token.after
    assert sorted(found) == sorted(PATHS)
    assert 0 < len(some) <= count


DEEP = urlsafe_b64encode(b'[1,[1,"a"],' + b"[" * 1500 + b"]" * 1500 + b"]").decode().rstrip("=")


@pytest.mark.parametrize("text", ["", "%", "e30", "bnVsbA", "\u00e9", "Wy0xLFsxLCJhIl1d", DEEP])
def test_what_is_no_token_is_refused(text: str) -> None:
    """Whatever a client sends."""
    with pytest.raises(RequestRefused, match="pageToken"):
        token_of(text)
