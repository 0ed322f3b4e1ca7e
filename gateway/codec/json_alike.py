"""Decoding of a JSON body whose records have the same form: by the positions of quotation marks, without a Python object for
each.

Programs write all records of a request in the same form: the same members in the same order, with the same white space. Then the
text between the strings repeats. If it does, and no string has an escape, only the strings' positions have to be found.

The parser remains the authority on the grammar. ``json_batch`` decodes a short body: the first two records and the end of this
one. Each further record repeats the text between the strings of these two. Its strings have no quotation mark, backslash or
control character, and are UTF-8. So the whole body is as valid as the short one, and has the same meaning.

In case of doubt the result is None, as in ``json_batch``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.codec import json_batch
from gateway.codec.record_columns import RecordColumns

BYTES_MIN: Final = 32 * 1024
"""Size below which a body is decoded in less time than the check takes."""
_SPACE: Final = 0x20
_QUOTE: Final = 0x22
_QUOTED_BYTES_MIN: Final = 3
"""Least bytes for each quotation mark: a body with more of them has no records. Bounds the memory for their positions."""
_ENVELOPE_QUOTES: Final = 2

_Places = npt.NDArray[np.int64]
_Characters = npt.NDArray[np.uint8]


def decode_envelope(body: bytes, *, bytes_min: int = BYTES_MIN) -> RecordColumns | None:
    """Return the records of ``{"records": [...]}``, each with a string as value, and a key in all or none; None for any other
    body.

    ``bytes_min``: a shorter body is not examined, and gives None, too.
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
    # Each member has four positions: the quotation marks of its name and of its value.
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
    """Return the names of the first record's members, in order, if each value is a string."""
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
    """Return whether the same text stands between the strings of every record but the first, and within the first."""
    between = [(ends[:-1, -1], starts[1:, 0])]
    between += [(ends[:, index - 1], starts[:, index]) for index in range(1, starts.shape[1])]
    for begins, stops in between:
        length = int(stops[0] - begins[0])
        if ((stops - begins) != length).any():
            return False
        # A view of such a text at every position: without a copy, as numpy's own way to such a view is slow.
        every = np.ndarray((len(characters) - length + 1, length), np.uint8, characters, strides=(1, 1))
        if every[begins].tobytes() != every[begins[0]].tobytes() * len(begins):
            return False
    return True


def _columns(body: bytes, members: list[bytes], starts: _Places, ends: _Places) -> RecordColumns:
    """Return the strings of each member as a column."""
    # One array over the whole body: every second element is a string, the others are the text between strings.
    offsets = np.stack((starts, ends), axis=2).astype(np.int32).ravel()
    texts = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(body)])
    step = 2 * len(members)
    found = {name: texts.take(pa.array(np.arange(2 * index, len(offsets), step))) for index, name in enumerate(members)}
    return RecordColumns(values=found[b"value"], keys=found.get(b"key"))


def _are(short: RecordColumns, columns: RecordColumns) -> bool:
    """Return whether the parser found the first two of these records, and nothing else."""
    others = (short.headers, short.timestamps, short.partitions, short.deliver_at, short.deliver_after)
    if any(column is not None for column in others) or not short.values.equals(columns.values[:2]):
        return False
    if short.keys is None or columns.keys is None:
        return short.keys is columns.keys
    return bool(short.keys.equals(columns.keys[:2]))
