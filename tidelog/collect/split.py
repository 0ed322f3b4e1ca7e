"""Conversion of a file's bytes to records. A pure function: the same bytes at the same position give the same records.

A record is a line without its line break (LF or CR LF). With a pattern for first lines it is a matching line and the following
ones that don't match. A record above the topic's size limit is cut into parts; so is one whose end has not come in time.
Nothing is decoded: bytes that are no UTF-8 stay unchanged. Blank lines are records with an empty value.

Whole blocks are processed with numpy; only a pattern for first lines needs a Python step per line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tidelog.collect.position import Position

Numbers = npt.NDArray[np.int64]

_LF = 10
_CR = 13


class Remainder(Enum):
    """Treatment of the bytes after the last record that is known to have ended."""

    LEAVE = "leave"
    """Leave them for the next block, since more may come, except for what exceeds a record's size."""
    WHOLE = "whole"
    """Take them as a complete record."""
    PART = "part"
    """Take them as a part of a record whose end may still come, and number it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one block, in order.

    Value ``i`` is ``data[offsets[i]:offsets[i + 1]]``, its line ``lines[i]``. ``parts[i]`` is 0 for a whole record, else the
    number of the part, from 1. ``consumed``: bytes of the block that were used; ``next``: the position behind them. ``whole``:
    whether that position is outside a record. ``ends``: positions in the block where whole records end. ``end_indices``: for
    each of them the index of the record, as in ``lines``.
    """

    data: bytes
    offsets: Numbers
    lines: Numbers
    parts: Numbers
    consumed: int
    next: Position
    whole: bool
    ends: Numbers
    end_indices: Numbers

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.lines)


@dataclass(frozen=True, slots=True)
class _Spans:
    """Records as ranges of the block: content ``[start, end)``, then the line break up to ``following``; and line indices."""

    starts: Numbers
    ends: Numbers
    following: Numbers
    line_indices: Numbers


def split(
    block: bytes, start: Position, *, rest: Remainder, value_bytes_max: int, first_line: re.Pattern[bytes] | None = None
) -> Records:
    """Return the records of ``block``, which begins at ``start``; each has at most ``value_bytes_max`` (at least 1) bytes."""
    array = np.frombuffer(block, dtype=np.uint8)
    breaks = np.flatnonzero(array == _LF)
    unfinished = int(breaks[-1]) + 1 if len(breaks) else 0
    open_end = len(block)
    if first_line is None:
        spans, open_start = _lines(breaks), unfinished
    else:
        # It is not known yet whether an unfinished line is a first line: it waits, unless it is too large.
        if rest is Remainder.LEAVE and open_end - unfinished <= value_bytes_max:
            open_end = unfinished
        spans, open_start = _events(block[:open_end], breaks, first_line)
    # A record that is open at the end of the block but already too large is cut: its first parts are taken.
    if rest is Remainder.LEAVE and open_end > open_start:
        open_end = open_start + (open_end - open_start - 1) // value_bytes_max * value_bytes_max
    opened = open_end > open_start
    if opened:
        trimmed = open_end
        if rest is not Remainder.LEAVE and first_line is not None and block[open_end - 1] == _LF:
            trimmed -= 1
        index = int(np.searchsorted(breaks, open_start))
        spans = _Spans(
            np.append(spans.starts, open_start),
            np.append(spans.ends, trimmed),
            np.append(spans.following, open_end),
            np.append(spans.line_indices, index),
        )
    open_part = opened and rest is not Remainder.WHOLE
    ends = spans.ends.copy()
    ended = ends > spans.starts
    ended[ended] = array[ends[ended] - 1] == _CR
    if opened and (rest is Remainder.LEAVE or spans.ends[-1] == spans.following[-1]):
        ended[-1] = False  # a CR is part of the line break only directly before LF
    ends -= ended
    data = _without_gaps(array, ends, spans.following)
    offsets, lines, parts, last_part, last_indices = _cut(spans, ends, start, value_bytes_max, open_part)
    consumed = int(spans.following[-1]) if len(spans.following) else 0
    whole = consumed > 0 and not open_part
    return Records(
        data=data,
        offsets=offsets,
        lines=lines,
        parts=parts,
        consumed=consumed,
        next=Position(
            offset=start.offset + consumed,
            line=start.line + int(np.searchsorted(breaks, consumed)),
            part=(last_part if open_part else 0) if consumed else start.part,
        ),
        whole=whole,
        ends=spans.following[:-1] if open_part else spans.following,
        end_indices=last_indices[:-1] if open_part else last_indices,
    )


def _lines(breaks: Numbers) -> _Spans:
    """Return all finished lines."""
    following = breaks + 1
    starts = np.concatenate((np.zeros(1, np.int64), following[:-1])) if len(breaks) else following
    return _Spans(starts, breaks, following, np.arange(len(breaks)))


def _events(block: bytes, breaks: Numbers, first_line: re.Pattern[bytes]) -> tuple[_Spans, int]:
    """Return all multi-line records that another one follows, and the beginning of the last one, which may continue."""
    line_starts = np.concatenate((np.zeros(1, np.int64), breaks + 1))
    search = first_line.search
    lines = block.split(b"\n")
    if not lines[-1]:
        del lines[-1]
    firsts = [index for index, line in enumerate(lines) if index == 0 or search(line) is not None]
    indices = np.array(firsts or [0], dtype=np.int64)
    starts = line_starts[indices]
    return _Spans(starts[:-1], starts[1:] - 1, starts[1:], indices[:-1]), int(starts[-1])


def _without_gaps(array: npt.NDArray[np.uint8], ends: Numbers, following: Numbers) -> bytes:
    """Return the concatenated values, without the line breaks between them."""
    consumed = int(following[-1]) if len(following) else 0
    gaps = following - ends
    dropped = [ends[gaps >= 1], ends[gaps >= 2] + 1]
    kept = np.ones(consumed, dtype=np.bool_)
    for places in dropped:
        kept[places] = False
    return array[:consumed][kept].tobytes()


def _cut(
    spans: _Spans, ends: Numbers, start: Position, value_bytes_max: int, open_part: bool
) -> tuple[Numbers, Numbers, Numbers, int, Numbers]:
    """Return offsets, line and part numbers of the values, the number of the last part, and the index of each record's last
    value."""
    lengths = ends - spans.starts
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    numbers = start.line + spans.line_indices
    continued = start.part > 0 and len(lengths) > 0
    if not continued and not open_part and (not len(lengths) or int(lengths.max()) <= value_bytes_max):
        return bounds, numbers, np.zeros(len(lengths), np.int64), 0, np.arange(len(lengths))
    counts = np.maximum(-(-lengths // value_bytes_max), 1)
    if continued and lengths[0] == 0:
        counts[0] = 0  # only the line break of a line that was already sent
    record = np.repeat(np.arange(len(lengths)), counts)
    nth = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    offsets = np.concatenate(
        (np.zeros(1, np.int64), np.minimum(bounds[record] + (nth + 1) * value_bytes_max, bounds[record + 1]))
    )
    numbered = counts > 1
    base = np.zeros(len(lengths), np.int64)
    if continued:
        numbered[0] = True
        base[0] = start.part
    if open_part:
        numbered[-1] = True
    parts = np.where(numbered[record], base[record] + nth + 1, 0)
    last_part = int(parts[-1]) if open_part and len(parts) and record[-1] == len(lengths) - 1 else start.part
    return offsets, numbers[record], parts, last_part, np.cumsum(counts) - 1
