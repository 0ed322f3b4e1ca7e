"""Decodes a JSON body whose records are written alike: by places of quotation marks, without an object for any of them.

Programs write all records of a request in one way: the same members in the same order, with the same white space. Then the text
between the strings repeats. Where it does, and no string has an escape, the strings' places are all that there is to find.

The grammar stays the parser's. ``json_batch`` decodes a short body: the first two records and the end of this one. Each further
record repeats what stands between the strings of those two. Its strings have no quotation mark, backslash or control character,
and are UTF-8. So the whole is as valid as the short body is, and means the same.

Where in doubt the answer is None, as in ``json_batch``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.codec import json_batch
from gateway.codec.record_columns import RecordColumns

BYTES_MIN: Final = 32 * 1024
"""Shorter bodies are decoded in less time than it takes to find out."""
_SPACE: Final = 0x20
_QUOTE: Final = 0x22
_QUOTED_BYTES_MIN: Final = 3
"""A body with more quotation marks, one in fewer bytes, is none of records: bounds the memory for their places."""
_ENVELOPE_QUOTES: Final = 2

_Places = npt.NDArray[np.int64]
_Characters = npt.NDArray[np.uint8]


def decode_envelope(body: bytes, *, bytes_min: int = BYTES_MIN) -> RecordColumns | None:
    """The records of ``{"records": [...]}``, each with a string as value, and a key in each or none; None: it is otherwise.

    ``bytes_min``: nor is it found out of a shorter body.
    """
    if len(body) < bytes_min or b"\\" in body:
        return None
    members = _members(body)
    if members is None or not _is_utf8(body):
        return None
    characters = np.frombuffer(body, np.uint8)
    if int(characters.min()) < _SPACE:
        return None
    is_quote = characters == _QUOTE
    if int(np.count_nonzero(is_quote)) * _QUOTED_BYTES_MIN > len(body):
        return None
    quotes = np.flatnonzero(is_quote)
    if (len(quotes) - _ENVELOPE_QUOTES) % (4 * len(members)):
        return None
    # Of each member two places for its name's quotation marks, two for its value's.
    places = quotes[_ENVELOPE_QUOTES:].reshape(-1, 4 * len(members))
    starts, ends = places[:, 2::4] + 1, places[:, 3::4]
    if len(places) < 2 or not _repeat(characters, starts, ends):
        return None
    columns = _columns(body, members, starts, ends)
    short = json_batch.decode_envelope(body[: ends[1, -1] + 1] + body[quotes[-1] + 1 :])
    return columns if isinstance(short, RecordColumns) and _are(short, columns) else None


def _is_utf8(body: bytes) -> bool:
    try:
        return body.isascii() or bool(body.decode())
    except UnicodeDecodeError:
        return False


def _members(body: bytes) -> list[bytes] | None:
    """The names of the first record's members, in order, if each is a string."""
    quotes: list[int] = []
    while len(quotes) < _ENVELOPE_QUOTES + 9:
        quotes.append(body.find(b'"', quotes[-1] + 1 if quotes else 0))
        if quotes[-1] < 0:
            return None
    names: list[bytes] = []
    for first in (_ENVELOPE_QUOTES, _ENVELOPE_QUOTES + 4):
        start, end, _, value_end, following = quotes[first : first + 5]
        names.append(body[start + 1 : end])
        if b"{" in body[value_end:following]:
            return names if sorted(names) in ([b"value"], [b"key", b"value"]) else None
    return None


def _repeat(characters: _Characters, starts: _Places, ends: _Places) -> bool:
    """Whether the same text stands between the strings of every record but the first, and within the first."""
    between = [(ends[:-1, -1], starts[1:, 0])]
    between += [(ends[:, index - 1], starts[:, index]) for index in range(1, starts.shape[1])]
    for begins, stops in between:
        length = int(stops[0] - begins[0])
        if ((stops - begins) != length).any():
            return False
        # Every place as the beginning of such a text: no copy, and numpy's own way to such a view is slow.
        every = np.ndarray((len(characters) - length + 1, length), np.uint8, characters, strides=(1, 1))
        if every[begins].tobytes() != every[begins[0]].tobytes() * len(begins):
            return False
    return True


def _columns(body: bytes, members: list[bytes], starts: _Places, ends: _Places) -> RecordColumns:
    """The strings of each member as a column."""
    # One array of all of the body: every second element is a string, the others are what stands between.
    offsets = np.stack((starts, ends), axis=2).astype(np.int32).ravel()
    texts = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    step = 2 * len(members)
    found = {name: texts.take(pa.array(np.arange(2 * index, len(offsets), step))) for index, name in enumerate(members)}
    return RecordColumns(values=found[b"value"], keys=found.get(b"key"))


def _are(short: RecordColumns, columns: RecordColumns) -> bool:
    """Whether the parser found the first two of these records, and nothing else."""
    others = (short.headers, short.timestamps, short.partitions, short.deliver_at, short.deliver_after)
    if any(column is not None for column in others) or not short.values.equals(columns.values[:2]):
        return False
    if short.keys is None or columns.keys is None:
        return short.keys is columns.keys
    return bool(short.keys.equals(columns.keys[:2]))
