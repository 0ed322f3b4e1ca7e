"""Positions in many encoded Protobuf messages, and reading at all of them at once.

A message that is not as serializers write it (fields in the order of their numbers, each once, none unknown), or whose bytes
may be wrong, is only marked as doubtful here, to be judged alone (``protobuf_messages``). So nothing is refused here, and what is
not doubtful is what Google's library reads.

Source: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from log_format.records import varints
from log_format.records.varints import Int64s, Uint64s
from log_format.schemas.columns.cursor import ALL, Cursor, Rows

Flags = npt.NDArray[np.bool_]

_NO_MORE: Final = np.uint64(0x8080808080808080)


class View:
    """Messages of one type within encoded values.

    Args:
        cursor: the values; ``at`` and ``ends`` of it are not used.
        at: position in each message.
        ends: where each message ends.
        roots: index of the value that each message is a part of.
        doubtful: by value, whether it has to be judged alone; views of the same values share it.
        budget: by value, number of cells of columns that its lists may still have; shared as well.
    """

    def __init__(
        self,
        cursor: Cursor,
        at: Int64s,
        ends: Int64s,
        *,
        roots: npt.NDArray[np.intp],
        doubtful: Flags,
        budget: Int64s,
    ) -> None:
        self.cursor = cursor
        self.data = cursor.data
        self.words = varints.words_of(self.data)
        self.at, self.ends, self.roots = at, ends, roots
        self.doubtful = doubtful
        self.budget = budget

    def __len__(self) -> int:
        return len(self.at)

    def within(self, spans: Int64s, roots: npt.NDArray[np.intp]) -> View:
        """Return a view of parts: start and length of each, and the value that it is in."""
        at = spans[:, 0].copy()
        return View(self.cursor, at, at + spans[:, 1], roots=roots, doubtful=self.doubtful, budget=self.budget)

    def has(self, rows: Rows, tag: int, tag_bytes: int) -> Flags:
        """Return which messages have the tag next."""
        at = self.at[rows]
        if tag_bytes == 1:
            found: Flags = self.data[at] == tag
        else:
            found = (self.words[at] & np.uint64((1 << (8 * tag_bytes)) - 1)) == tag
        return found & (at < self.ends[rows])

    def move(self, rows: Rows, behind: Int64s, bad: Flags | None) -> None:
        """Set the positions of messages; those behind their end, and bad ones, become doubtful."""
        ends = self.ends[rows]
        over = behind > ends if bad is None else (behind > ends) | bad
        if over.any():
            self.doubt(rows, over)
            behind = np.where(over, ends, behind)
        self.at[rows] = behind

    def doubt(self, rows: Rows, bad: Flags) -> None:
        """Mark those of ``rows`` for which ``bad`` is true, and move them to their end."""
        failed = np.flatnonzero(bad) if isinstance(rows, slice) else rows[bad]
        self.doubtful[self.roots[failed]] = True
        self.at[failed] = self.ends[failed]

    def doubt_unfinished(self) -> None:
        """Mark the messages in which there is more."""
        more = self.at != self.ends
        if more.any():
            self.doubt(ALL, more)

    def varints(self, at: Int64s) -> tuple[Uint64s, Int64s, Flags | None]:
        """Read a varint at each position: return the values, the positions behind them, and which are no varints."""
        first = self.data[at]
        if first.max(initial=0) < 0x80:
            return first.astype(np.uint64), at + 1, None
        if (both := varints.two_bytes(self.data, at, first)) is not None:
            return varints.TWO_BYTE_NUMBERS.take(both), at + 1 + (first >> 7), None
        words = self.words[at]
        stops = ~words
        stops &= _NO_MORE
        raw, sizes = varints.closed_gaps(words, stops)
        behind = at + sizes
        if stops.all():
            return raw, behind, None
        rows = np.flatnonzero(stops == 0)
        ninth, tenth = (self.data[at[rows] + place].astype(np.uint64) for place in (8, 9))
        is_ten = ninth >= 0x80
        raw[rows] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        raw[rows] |= np.where(is_ten, (tenth & np.uint64(1)) << np.uint64(63), np.uint64(0))
        behind[rows] = at[rows] + 9 + is_ten
        bad = np.zeros(len(at), np.bool_)
        bad[rows] = is_ten & (tenth > 1)
        return raw, behind, bad

    def spans(self, at: Int64s, ends: Int64s) -> tuple[Int64s, Int64s, Flags | None]:
        """Read a length at each position: return start and length of the bytes behind it, the positions behind those, and which
        have no length within their message."""
        raw, starts, bad = self.varints(at)
        beyond = (starts > ends) | (raw > np.maximum(ends - starts, 0).astype(np.uint64))
        if bad is not None:
            beyond |= bad
        found = np.empty((len(at), 2), np.int64)
        if not beyond.any():
            found[:, 0], found[:, 1] = starts, raw.view(np.int64)
            return found, starts + found[:, 1], None
        found[:, 0] = np.minimum(starts, ends)
        found[:, 1] = np.where(beyond, 0, raw).view(np.int64)
        return found, found[:, 0] + found[:, 1], beyond
