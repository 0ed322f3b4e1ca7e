"""Values of Confluent's Protobuf serializers, and documents in Protobuf's JSON, as a column.

Behind the schema's id a value names its message (``message_indexes``). What the bulk doubts is read by Google's library one by
one, and what is wrong is told by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from log_format.schemas import message_indexes
from log_format.schemas.columns.cursor import Cursor, Fault
from log_format.schemas.columns.document_values import Refused, parsed
from log_format.schemas.columns.protobuf_alone import lossless_class, message_class
from log_format.schemas.columns.protobuf_bulk_documents import BulkDocuments
from log_format.schemas.columns.protobuf_counting import count_items
from log_format.schemas.columns.protobuf_documents import message_value
from log_format.schemas.columns.protobuf_scalars import CELLS_MAX, Budget, cells_most
from log_format.schemas.columns.protobuf_schema import column_names, takes_columns, topic_message
from log_format.schemas.columns.protobuf_view import View
from log_format.schemas.columns.shape import Untypable
from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.parsing_protobuf import ProtobufSchema, parse_protobuf

_BULK_MIN: Final = 16
"""Number of values below which numpy's calls cost more than to read each alone."""
_HEADER_BYTES: Final = 5
_UNCOUNTED_CELLS_MAX: Final = 256 * 1024
"""Cells that the items of a value's lists may take in the library's memory, twice over, without being counted before."""


class ProtobufValues:
    """Reader of the values of a Protobuf schema.

    Args:
        schema: the schema.
        bulk_min: number of values from which they are read in bulk.

    Raises:
        Untypable: columns can't have it.
    """

    def __init__(self, schema: ProtobufSchema, *, bulk_min: int = _BULK_MIN) -> None:
        self._schema = schema
        self._bulk_min = bulk_min
        self._indexes, self._message = topic_message(schema)
        self.shape = self._message.shape
        self.type: pa.DataType = self._message.type
        self.takes_columns = takes_columns(self._message)
        """Whether the columns of a value, rendered, are its document."""
        self.names = column_names(self._message)
        """Path of each column by the numbers of its fields."""
        self._bulk_documents = BulkDocuments(self._message)
        self.prefix: Final = message_indexes.encode(self._indexes)
        """Bytes by which a value names the message."""

    @cached_property
    def _lossless(self) -> Any:
        return lossless_class(self._schema.plain_files, self._message.name)

    @cached_property
    def message_class(self) -> Any:
        """The library's class of the message."""
        return message_class(self._schema.files, self._message.name)

    def framed(self, values: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of values with Confluent's header, and the fault of each that is not of the message."""
        if len(values) < self._bulk_min:
            return self._alone(values, np.arange(len(values)), self._one)
        cursor = Cursor(values, _HEADER_BYTES)
        doubtful = np.zeros(len(values), np.bool_)
        at = cursor.at
        for byte in self.prefix:
            at = np.minimum(at, cursor.ends)
            doubtful |= (cursor.data[at] != byte) | (at >= cursor.ends)
            at = at + 1
        starts = np.where(doubtful, cursor.ends, at)
        budget = cells_most(cursor.ends - starts)
        roots = np.arange(len(values))
        view = View(cursor, starts, cursor.ends, roots=roots, doubtful=doubtful, budget=budget)
        return self._with_doubtful(self._message.read(view), doubtful, values, self._one)

    def _with_doubtful(
        self,
        column: pa.Array,
        doubtful: npt.NDArray[np.bool_],
        values: pa.BinaryArray,
        read: Callable[[bytes], tuple[Any, int]],
    ) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column with those values that are in doubt read alone, and the faults."""
        rows = np.flatnonzero(doubtful)
        if not len(rows):
            return column, {}
        alone, faults = self._alone(pc.take(values, pa.array(rows)), rows, read)
        places = np.arange(len(values))
        places[rows] = len(values) + np.arange(len(rows))
        return pc.take(pa.concat_arrays([column, alone]), pa.array(places)), faults

    def documents(self, texts: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of JSON documents, and the fault of each that is not of the message."""
        found = None if len(texts) < self._bulk_min else self._bulk_documents.column_of(texts)
        if found is None:
            return self._alone(texts, np.arange(len(texts)), self._document)
        return self._with_doubtful(*found, texts, self._document)

    def _alone(
        self, values: pa.BinaryArray, rows: npt.NDArray[np.intp], read: Callable[[bytes], tuple[Any, int]]
    ) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of values read one by one, and the faults by ``rows``."""
        faults: dict[int, Fault] = {}
        parts = [pa.nulls(0, self.type)]
        waiting: list[Any] = []
        cells = 0
        for row, value in zip(rows.tolist(), values, strict=True):
            try:
                found, spent = read(value.as_py())
            except Refused as error:
                faults[row] = error.fault
                found, spent = None, 0
            waiting.append(found)
            cells += spent + self._message.leaves
            if cells > CELLS_MAX:
                parts.append(pa.array(waiting, self.type))
                waiting, cells = [], 0
        parts.append(pa.array(waiting, self.type))
        return pa.concat_arrays(parts), faults

    def _document(self, text: bytes) -> tuple[dict[str, Any], int]:
        """Return the fields of one document, and how many cells its lists take. Raises ``Refused``."""
        budget = Budget(len(text))
        return message_value(self._message, parsed(text), "", budget), budget.most - budget.cells

    def _one(self, value: bytes) -> tuple[dict[str, Any], int]:
        """Return the fields of one value, and how many cells its lists take. Raises ``Refused``."""
        body = value[self._behind_indexes(value, _HEADER_BYTES) :]
        if len(body) * self._message.widest_item > _UNCOUNTED_CELLS_MAX:
            count_items(self._message, body, Budget(len(body)))
        try:
            raw = self._lossless.FromString(body)
        except DecodeError as error:
            what = "its bytes are no message of Protobuf: they end within a field, are damaged, or nested too deep"
            raise Refused("", what) from error
        budget = Budget(len(body))
        return self._message.value(raw, "", budget), budget.most - budget.cells

    def _behind_indexes(self, value: bytes, at: int) -> int:
        """Return the position behind the indexes of the message. Raises ``Refused`` if they are those of another one."""
        try:
            named, at = message_indexes.decode(value, at)
        except ValueError as error:
            raise Refused("", str(error)) from error
        try:
            name = self._schema.message_name(named)
        except LookupError as error:
            raise Refused("", "its schema has no message of these indexes") from error
        if named != self._indexes:
            raise Refused("", f"its message is {name}, and the topic's columns are those of {self._message.name}")
        return at


def protobuf_values(text: str, references: Sequence[tuple[str, str]]) -> ProtobufValues:
    """Return the reader of a schema's values.

    Args:
        text: the schema.
        references: name and text of the schemas that it imports, each after those that it needs itself.

    Raises:
        Untypable: columns can't have it, or it is no schema.
    """
    try:
        schema = parse_protobuf(text, references)
    except InvalidSchema as error:
        raise Untypable("", f"is no Protobuf: {error.detail}") from error
    return ProtobufValues(schema)
