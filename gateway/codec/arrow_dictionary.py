"""Dictionary-encoded columns of an Arrow stream: many batches may share one dictionary, so each dictionary is checked only once.

1. The size of a dictionary's values, and of the values taken from it, is known before anything is copied.
2. Arrow's full validation would check the dictionary again for each batch, and a batch that refers to a dictionary of millions of
   values costs its sender nothing. So a dictionary is validated once, and then the indices of each batch. ``take`` refuses
   indices out of bounds.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.arrow_columns import is_headers, lengths, plain
from gateway.codec.refusal import malformed

HEADER_NAMES_MAX: Final = 16_777_216
"""Most values of header dictionaries: validating so many takes 0.2 s."""

Place = tuple[int | None, ...]


class Dictionary:
    """A validated dictionary, whose values are of a type of bytes."""

    def __init__(self, values: pa.Array) -> None:
        self._place = _place(values)
        self._values = values
        self._lengths = pa.array(lengths(values))
        self._plain: pa.Array | None = None
        self.size_bytes: int = pc.sum(self._lengths).as_py() or 0

    def is_of(self, column: pa.DictionaryArray) -> bool:
        """Return whether ``column`` uses this dictionary."""
        return _place(column.dictionary) == self._place

    def taken_bytes(self, indices: pa.Array) -> int:
        """Return the total size of the values at ``indices``."""
        return pc.sum(pc.take(self._lengths, indices)).as_py() or 0

    def taken(self, indices: pa.Array) -> pa.Array:
        """Return the values at ``indices`` as plain ``binary``."""
        if self._plain is None:
            self._plain = plain(self._values)
        return pc.take(self._plain, indices)


def validate(column: pa.ChunkedArray) -> None:
    """Raise ``pa.ArrowException`` unless all of ``column`` can be read; dictionary indices may still be out of bounds.

    Headers are validated by Arrow: their dictionaries may have ``HEADER_NAMES_MAX`` values, summed up over all batches.
    """
    if is_headers(column.type) and any(pa.types.is_dictionary(field.type) for field in column.type.value_type):
        count = 0
        for chunk in column.chunks:
            fields = (chunk.values.field(field.name) for field in column.type.value_type)
            count += sum(len(field.dictionary) for field in fields if pa.types.is_dictionary(field.type))
            if count > HEADER_NAMES_MAX:
                what = f"the dictionaries of its headers have more than {HEADER_NAMES_MAX} values over all batches"
                raise malformed(f"The Arrow stream can't be read: {what}. Send larger batches.", "/headers")
    if not pa.types.is_dictionary(column.type):
        column.validate(full=True)
        return
    place: Place | None = None
    for chunk in column.chunks:
        chunk.validate()
        chunk.indices.validate(full=True)
        if _place(chunk.dictionary) != place:
            chunk.dictionary.validate(full=True)
            place = _place(chunk.dictionary)


def _place(values: pa.Array) -> Place:
    """Return the location of an array in memory: unique while the array lives."""
    return (len(values), values.offset, *(None if buffer is None else buffer.address for buffer in values.buffers()))
