"""The description of a segment in a commit: its path, its runs, its footer, its size.

A run is the consecutive records of one partition in a segment. Runs are sorted by partition; each has one row group or more of
its own. The Parquet footer has the row groups' byte ranges and checksums. The commit has the footer's own position and checksum,
so a reader needs two range requests and can verify both. Any program may write a commit with any path, so the path is checked
before its use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from log_format import limits
from log_format.errors import CorruptData

_UNFIT: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[\x00-\x1f\x7f]")
"""Parts that no path of Tidelog has: a scheme, which would make it absolute, and control characters."""
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Run:
    """The records ``[base_offset, end_offset)`` of one partition; fewer than that after key compaction."""

    partition: int
    base_offset: int
    end_offset: int
    record_count: int
    size_bytes: int
    """Stored (compressed) size: that of its row groups."""
    min_timestamp_ms: int
    max_timestamp_ms: int

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an impossible run."""
        if not (
            self.partition >= 0
            and 0 <= self.base_offset < self.end_offset
            and 0 < self.record_count <= self.end_offset - self.base_offset
            and self.size_bytes > 0
            and self.min_timestamp_ms <= self.max_timestamp_ms
        ):
            raise ValueError(f"not a run: {self}")


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A reference to a segment, as its ``add`` has it."""

    path: str
    """Path relative to the topic's table, not URI-encoded."""
    size_bytes: int
    footer_start: int
    """Position of the first byte after the last row group; the rest of the object is the footer, including the trailer."""
    footer_crc32: int
    """CRC-32 (zlib) of ``[footer_start, size_bytes)``."""


def parse_segment_path(path: str) -> str:
    """Return an ``add.path`` without its URI encoding. Raises ``CorruptData`` unless it names an object below the table."""
    plain = unquote(path)
    names = plain.split("/")
    if (
        len(plain.encode()) <= limits.SEGMENT_PATH_BYTES_MAX
        and not _UNFIT.search(plain)
        and all(name not in {"", ".", ".."} and len(name.encode()) <= limits.KEY_NAME_BYTES_MAX for name in names)
    ):
        return plain
    shown = repr(plain[:_SHOWN_CHARACTERS])
    raise CorruptData(
        f"The log names {shown} as a segment, which is no path below the topic's table: this commit was not written by Tidelog.",
        segment=plain[:_SHOWN_CHARACTERS],
    )
