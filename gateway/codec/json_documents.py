"""Decoding of many JSON records whose values are objects: they are cut out of the text, without a Python object for any.

Programs write all records of a request in the same form: the same members in the same order, also in their values. Then the
quotation marks and braces of each record have the same order, and the names between them are the same bytes. So no record has a
member twice unless the first one has, and what is at the same place in each is the key, or the value.

The parser remains the authority on the grammar: msgspec reads the whole text, and removes the white space outside of strings.
In case of doubt the result is None, as in ``json_batch``, which reads texts of any form.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.codec.json_structure import escaped_characters
from gateway.codec.json_text import repeated_member
from gateway.codec.record_columns import RecordColumns
from log_format.errors import DECODE_ERRORS

BYTES_MIN: Final = 32 * 1024
"""Size below which ``json_batch`` takes less time."""
PLACES_MAX: Final = 1_048_576
"""Most quotation marks, braces and backslashes of a text, those in strings too: bounds the memory for their places."""
PROBED_BYTES: Final = 8 * 1024
"""Bytes from the beginning in which the records are compared first."""
TOKENS_MAX: Final = 4096
"""Most quotation marks and braces of a record."""
_ENVELOPE: Final = (b'{"records":[', b"]}")
_LIST: Final = (b"[", b"]")
_FIRST_VALUE: Final = re.compile(rb'"value"[ \t\r\n]*+:[ \t\r\n]*+\{')
_QUOTE, _BACKSLASH, _OPENING, _CLOSING, _COLON = b'"\\{}:'
_WORD_BYTES: Final = 8
_MASKS: Final = np.array([(1 << 8 * length) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)
"""The first bytes of a word, by their number."""

_Places = npt.NDArray[np.int64]
_Characters = npt.NDArray[np.uint8]

_read: Final = msgspec.json.Decoder(msgspec.Raw).decode
_read_lines: Final = msgspec.json.Decoder(msgspec.Raw).decode_lines


def decode_envelope(body: bytes, *, bytes_min: int = BYTES_MIN) -> RecordColumns | None:
    """Return the records of ``{"records": [...]}``, each with an object as value, and a key in all or none; None for any other
    body.

    ``bytes_min``: a shorter text is not examined, and gives None, too.
    """
    return _decode(body, _ENVELOPE) if _may_be_cut(body, bytes_min) else None


def decode_list(text: bytes, *, bytes_min: int = BYTES_MIN) -> RecordColumns | None:
    """Return the records of a JSON array, or None."""
    return _decode(text, _LIST) if _may_be_cut(text, bytes_min) else None


def decode_lines(text: bytes, *, bytes_min: int = BYTES_MIN) -> RecordColumns | None:
    """Return the records of a text with one object a line, or None; see ``json_batch.decode_lines``."""
    if not _may_be_cut(text, bytes_min):
        return None
    try:
        return _decode(b"[%b]" % b",".join(_read_lines(text)), _LIST)
    except DECODE_ERRORS:
        return None


def _may_be_cut(text: bytes, bytes_min: int) -> bool:
    """Return whether the first value may be an object, and no string is written in a longer form than it is stored in."""
    place = text.find(b'"value"')
    if len(text) < bytes_min or place < 0 or not _FIRST_VALUE.match(text, place):
        return False
    if len(text) > PLACES_MAX and sum(map(text.count, (b'"', b"{", b"}", b"\\"))) > PLACES_MAX:
        return False
    return b"\\" not in text or not (b"\\u" in text or b"\\/" in text)


def _decode(text: bytes, around: tuple[bytes, bytes]) -> RecordColumns | None:
    before, behind = around
    if not _begins_alike(text, before.count(b'"') + before.count(b"{")):
        return None
    try:
        if not text.isascii():
            text.decode()
        text = msgspec.json.format(text, indent=-1)
    except DECODE_ERRORS:
        return None
    if not (text.startswith(before) and text.endswith(behind)):
        return None
    # Names are read by words: none may reach beyond the end.
    characters = np.frombuffer(text + bytes(_WORD_BYTES), np.uint8)
    rows = _rows(characters, len(before), len(text) - len(behind))
    if rows is None or not _have_the_same_names(characters, rows):
        return None
    first = text[int(rows[0, 0]) : int(rows[0, -1]) + 1]
    members = _members(first, rows[0] - rows[0, 0])
    if members is None or repeated_member(first) is not None:
        return None
    key, opening, closing, outside = members
    # Between these there is nothing in the first record but a colon or a comma. So nothing else fits between the others.
    if any((rows[:, one + 1] - rows[:, one] != rows[0, one + 1] - rows[0, one]).any() for one in outside):
        return None
    keys = None if key is None else _texts(text, rows[:, key] + 1, rows[:, key + 1])
    if keys is not None and b"\\" in text and b"\\" in keys.buffers()[2].to_pybytes():
        return None
    return RecordColumns(values=_texts(text, rows[:, opening], rows[:, closing] + 1), keys=keys)


def _begins_alike(text: bytes, tokens_before: int) -> bool:
    """Return whether the first records seem to have one form: where records differ, these mostly do."""
    if len(text) <= PROBED_BYTES:
        return True
    characters = np.frombuffer(text, np.uint8, PROBED_BYTES)
    kinds = characters[_places(characters)[tokens_before:]]
    each = _size_of_first(kinds)
    return each > 0 and bool((kinds[each:] == kinds[:-each]).all())


def _places(characters: _Characters) -> _Places:
    """Return where quotation marks and braces are that no backslash escapes."""
    is_token = (characters == _QUOTE) | (characters == _OPENING) | (characters == _CLOSING)
    backslashes = characters == _BACKSLASH
    if backslashes.any():
        escaped, _ = escaped_characters(backslashes, first_is_escaped=False)
        is_token[escaped] = False
    return np.flatnonzero(is_token)


def _size_of_first(kinds: _Characters) -> int:
    """Return how many quotation marks and braces the first record has; 0 if it is no object or has too many."""
    kinds = kinds[:TOKENS_MAX]
    outside = (np.cumsum(kinds == _QUOTE) & 1) == 0
    depths = np.cumsum((outside & (kinds == _OPENING)).astype(np.int64) - (outside & (kinds == _CLOSING)))
    closed = np.flatnonzero(depths == 0)
    return int(closed[0]) + 1 if len(closed) and kinds[0] == _OPENING else 0


def _rows(characters: _Characters, start: int, end: int) -> _Places | None:
    """Return the places of each record's quotation marks and braces, if they have the same order in all of at least two.

    The records are from ``start`` to ``end`` of a valid text without white space.
    """
    places = _places(characters[start:end])
    places += start
    each = _size_of_first(characters[places[:TOKENS_MAX]])
    if each == 0 or len(places) % each or len(places) == each:
        return None
    rows = places.reshape(-1, each)
    if (characters[rows] != characters[rows[0]]).any():
        return None
    # One comma is between two records, and nothing before the first and behind the last.
    is_dense = rows[0, 0] == start and rows[-1, -1] == end - 1 and (rows[1:, 0] - rows[:-1, -1] == 2).all()
    return rows if is_dense else None


def _have_the_same_names(characters: _Characters, rows: _Places) -> bool:
    """Return whether the same strings of each record are names, and the same names."""
    quotes = rows[:, characters[rows[0]] == _QUOTE]
    starts, ends = quotes[:, ::2] + 1, quotes[:, 1::2]
    followed = characters[ends + 1] == _COLON
    are_names = followed[0]
    if (followed != are_names).any():
        return False
    starts, ends = starts[:, are_names], ends[:, are_names]
    lengths = ends[0] - starts[0]
    if ((ends - starts) != lengths).any():
        return False
    # A view of the word at every position, without a copy.
    words = np.ndarray(len(characters) - _WORD_BYTES + 1, "<u8", characters, strides=(1,))
    for first in range(0, int(lengths.max(initial=0)), _WORD_BYTES):
        columns = np.flatnonzero(lengths > first)
        found = words[starts[:, columns] + first] & _MASKS[np.minimum(lengths[columns] - first, _WORD_BYTES)]
        if (found != found[0]).any():
            return False
    return True


def _members(record: bytes, places: _Places) -> tuple[int | None, int, int, list[int]] | None:
    """Return which quotation mark or brace begins the key, and which begin and end the value; None for other members.

    And those that have the next one at once, or behind a colon or comma. ``places`` is where they are in the record.
    """

    def between(first: int, last: int) -> bytes:
        return record[int(places[first]) : int(places[last]) + 1]

    last = len(places) - 1
    if between(0, min(3, last)) == b'{"value":{' and between(last - 1, last) == b"}}":
        key, opening, closing, outside = None, 3, last - 1, [0, 2, last - 1]
    elif last < 9:
        return None
    elif between(0, 3) == b'{"key":"' and between(4, 7) == b'","value":{' and between(last - 1, last) == b"}}":
        key, opening, closing, outside = 3, 7, last - 1, [0, 2, 4, 6, last - 1]
    elif (
        between(0, 3) == b'{"value":{'
        and between(last - 5, last - 2) == b'},"key":"'
        and between(last - 1, last) == b'"}'
    ):
        key, opening, closing, outside = last - 2, 3, last - 5, [0, 2, last - 5, last - 3, last - 1]
    else:
        return None
    # The value's first brace and this last one may belong to two members.
    is_one = _is_json(between(opening, closing))
    return (key, opening, closing, outside) if is_one else None


def _is_json(text: bytes) -> bool:
    try:
        _read(text)
    except DECODE_ERRORS:
        return False
    return True


def _texts(text: bytes, starts: _Places, ends: _Places) -> pa.Array:
    """Return the parts of a text as a binary array."""
    # One array over the whole text: every second element is a part, the others are between them.
    offsets = np.stack((starts, ends), axis=1).astype(np.int32).ravel()
    every = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return every.take(pa.array(np.arange(0, len(offsets), 2)))
