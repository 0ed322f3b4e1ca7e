"""Counts of the parts of a JSON text without parsing it, to judge a body before a parser allocates memory for it.

numpy scans a text in pieces: memory does not grow with the text, and no piece holds the interpreter's lock for long. For an
invalid text the results are meaningless, but returned as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

PIECE_BYTES: Final = 256 * 1024
_QUOTE, _BACKSLASH = b'"\\'
OPENING, CLOSING, NAME = b"{}:"
"""Kinds of tokens that ``names`` yields: an object's brackets, and a member's name, which a colon follows."""
_COMMA, _OPENING_LIST, _CLOSING_LIST = b",[]"
_IS_STRUCTURE: Final = np.zeros(256, np.bool_)
_IS_STRUCTURE[list(b"{}[],:")] = True
_DEPTHS: Final = np.zeros(256, np.int8)
_DEPTHS[list(b"[{")] = 1
_DEPTHS[list(b"]}")] = -1
_IS_NODE: Final = np.zeros(256, np.bool_)
_IS_NODE[list(b"[{,")] = True

Positions = npt.NDArray[np.int64]


def nodes_exceed(text: bytes, nodes_max: int) -> bool:
    """Return whether ``text`` has more than ``nodes_max`` commas and opening brackets: at least half as many as it has values."""
    if text.count(b",") + text.count(b"[") + text.count(b"{") <= nodes_max:
        return False
    count = 0
    for _, kinds, _ in _structure(text):
        count += int(np.count_nonzero(_IS_NODE[kinds]))
        if count > nodes_max:
            return True
    return False


def commas(text: bytes) -> Iterator[Positions]:
    """Yield the positions of the commas directly inside the array or object ``text``, in pieces, in order."""
    depth = 0
    for positions, kinds, _ in _structure(text):
        depths = np.cumsum(_DEPTHS[kinds], dtype=np.int64) + depth
        if len(depths):
            depth = int(depths[-1])
        yield positions[(kinds == _COMMA) & (depths == 1)]


def elements_exceed(text: bytes, elements_max: int) -> bool:
    """Return whether the array or object ``text`` has more than ``elements_max`` elements."""
    if text.count(b",") < elements_max:
        return False
    count = 1
    for found in commas(text):
        count += len(found)
        if count > elements_max:
            return True
    return False


def elements(text: bytes, records_max: int, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Yield the elements of the array ``text`` in groups: their number, and their text with the commas between them.

    A group ends at ``records_max`` elements, or after the first that makes it longer than ``bytes_max``.
    """
    opening, end = text.index(b"["), text.rindex(b"]")
    start = opening + 1
    if not text[start:end].strip(b" \t\r\n"):
        return
    count = 0
    for found in commas(text):
        taken = 0
        while taken < len(found):
            # The group's last comma: the one after its last element, or the first one beyond its bytes.
            full = int(np.searchsorted(found, start + bytes_max))
            last = min(taken + records_max - count, max(full, taken) + 1)
            if last > len(found):
                break
            comma = int(found[last - 1])
            yield count + last - taken, text[start:comma]
            taken, count, start = last, 0, comma + 1
        count += len(found) - taken
    yield count + 1, text[start:end]


def names(text: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the brackets of objects and the members' names in a valid ``text``: kind, start and end (exclusive), in order."""
    before = np.zeros(0, np.int64)
    for all_positions, all_kinds, new_quotes in _structure(text):
        quotes = np.concatenate((before, new_quotes))
        wanted = np.isin(all_kinds, (OPENING, CLOSING, NAME))
        positions, kinds = all_positions[wanted], all_kinds[wanted]
        is_name = kinds == NAME
        starts, ends = positions.copy(), positions + 1
        closing = np.searchsorted(quotes, positions[is_name]) - 1
        starts[is_name], ends[is_name] = quotes[closing - 1], quotes[closing] + 1
        yield from zip(kinds.tolist(), starts.tolist(), ends.tolist(), strict=True)
        before = quotes[-2:]


def _structure(text: bytes) -> Iterator[tuple[Positions, npt.NDArray[np.uint8], Positions]]:
    """Yield brackets, commas and colons outside of strings with their positions, and the positions of the strings' quotation
    marks."""
    whole = np.frombuffer(text, np.uint8)
    in_string = escaped = False
    for start in range(0, len(whole), PIECE_BYTES):
        characters = whole[start : start + PIECE_BYTES]
        quotes = characters == _QUOTE
        backslashes = characters == _BACKSLASH
        if escaped or backslashes.any():
            behind, escaped = escaped_characters(backslashes, first_is_escaped=escaped)
            quotes[behind] = False
        inside = np.logical_xor.accumulate(quotes)
        if in_string:
            np.logical_not(inside, out=inside)
        in_string = bool(inside[-1])
        positions = np.flatnonzero(_IS_STRUCTURE[characters] & ~inside)
        yield positions + start, characters[positions], np.flatnonzero(quotes) + start


def escaped_characters(backslashes: npt.NDArray[np.bool_], *, first_is_escaped: bool) -> tuple[Positions, bool]:
    """Return the characters that a backslash escapes, and whether the one after the piece is escaped."""
    steps = np.diff(backslashes.astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    lengths = ends - starts
    if first_is_escaped and len(starts) and starts[0] == 0:
        lengths[0] -= 1
    behind = ends[lengths % 2 == 1]
    at_end = len(behind) > 0 and int(behind[-1]) == len(backslashes)
    behind = behind[:-1] if at_end else behind
    if first_is_escaped:
        behind = np.append(behind, 0)
    return behind, at_end
