"""The values of one subject as a column: each value names its schema, or is a JSON document.

A value of Confluent's serializers begins with a zero byte and the id of its schema, 4 bytes, big-endian; what follows is as the
schema's type has it. Any other value is a JSON document of the subject's newest version.

A column of Protobuf belongs to the numbers of its fields: a number that names another column in a newer version is refused, as is
a member of another type.

Source: Confluent, "Wire format".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.canonical_json import render
from log_format.records.document_schemas import (
    KEY_DOCUMENT_SCHEMA,
    NO_SCHEMA,
    VALUE_DOCUMENT_SCHEMA,
    DocumentSchemas,
    document_schemas_of,
    with_note,
)
from log_format.records.typed_columns import (
    CELLS_MAX,
    DATA,
    DATA_ERROR,
    KEY_DATA,
    NOT_JUDGED,
    TypeConflict,
    TypedColumns,
    conform,
    merge,
)
from log_format.schemas.columns.avro import Reader
from log_format.schemas.columns.avro_compound import column_of
from log_format.schemas.columns.avro_schema import avro_reader
from log_format.schemas.columns.cursor import Fault, spread
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.given_columns import UnfitType, document_form, fitted
from log_format.schemas.columns.json_schema import json_documents
from log_format.schemas.columns.shape import LibraryNeeded
from log_format.schemas.columns.told_values import columns_told, documents_told, has_unions
from log_format.schemas.schema import Schema, SchemaType

if TYPE_CHECKING:
    from log_format.schemas.columns.protobuf_values import ProtobufValues

HEADER_BYTES: Final = 5
"""Bytes before a value of Confluent's serializers: a zero, and the id of the schema."""


class SchemaReader:
    """Reader of the values of one schema.

    Args:
        schema: the schema.
        references: name and text of the schemas that it refers to, each after those that it needs itself.

    Raises:
        Untypable: columns can't have the schema.
    """

    def __init__(self, schema: Schema, references: Sequence[tuple[str, str]] = ()) -> None:
        self._avro: Reader | None = None
        self._documents: Documents | ProtobufValues
        self.names: Mapping[tuple[int, ...], str] = {}
        """Path of each column by the numbers of its fields, for Protobuf."""
        match schema.type:
            case SchemaType.AVRO:
                reader = avro_reader(schema.text, [text for _, text in references])
                self._avro, self._documents = reader, Documents(reader.shape)
            case SchemaType.JSON:
                self._documents = json_documents(schema.text, dict(references))
            case SchemaType.PROTOBUF:
                self._documents = _protobuf(schema.text, references)
                self.names = self._documents.names
        self.type = self._documents.type
        self.shape = self._documents.shape
        self.form = document_form(self.shape)

    def framed(self, values: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of values with Confluent's header, and the fault of each that is not of the schema."""
        if self._avro is not None:
            return column_of(self._avro, values, HEADER_BYTES)
        if not isinstance(self._documents, Documents):
            return self._documents.framed(values)
        return self._documents.column_of(_without_header(values))

    def documents(self, texts: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of JSON documents, and the fault of each that is not of the schema."""
        if not isinstance(self._documents, Documents):
            return self._documents.documents(texts)
        return self._documents.column_of(texts)

    @property
    def has_plain_documents(self) -> bool:
        """Whether a document has the names and values of its columns; Protobuf's JSON has several forms of each."""
        return isinstance(self._documents, Documents)

    def given(self, values: pa.StructArray, bytes_max: int) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of values that came as columns, as ``SubjectReader.given``; none is null."""
        if not isinstance(self._documents, Documents) and not self._documents.takes_columns:
            parts = "a oneof, a Duration, a FieldMask, an Any, or a required message without fields"
            raise UnfitType("", f"has {parts}, whose columns say no document: send values of the message")
        column, faults = fitted(self.shape, values)
        if isinstance(self._documents, Documents) and self._documents.has_check:
            rows = np.setdiff1d(np.arange(len(values)), list(faults))
            texts = render(column, self.form, bytes_max=bytes_max)
            faults |= self._documents.faults(texts, rows, column if has_unions(self.shape) else None)
        return column, faults


def _protobuf(text: str, references: Sequence[tuple[str, str]]) -> ProtobufValues:
    try:
        from log_format.schemas.columns.protobuf_values import (  # noqa: PLC0415 - its library is an extra's
            protobuf_values,
        )
    except ModuleNotFoundError as error:
        raise LibraryNeeded(
            "", "is Protobuf, which needs the package protobuf: pip install 'tidelog[registry]'"
        ) from error
    return protobuf_values(text, references)


def _without_header(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return what follows the header of each value. Arrow's slice of bytes fails where it leaves nothing of one of several."""
    count = len(values)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1]
    body = np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    starts = (offsets - offsets[0]).astype(np.int64)
    stays = np.ones(len(body), bool)
    stays[starts[:-1, None] + np.arange(HEADER_BYTES)] = False
    ends = (starts - HEADER_BYTES * np.arange(count + 1)).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(body[stays])])


class SubjectReader:
    """Reader of the values of a subject's versions.

    Args:
        subject: its name.
        versions: id and reader of each version, in their order; at least one.
        has_newest: whether the last one judges JSON documents that name no schema. False: nobody can judge these.

    Raises:
        TypeConflict: two versions have a member of different types, or a field's number under two names.
    """

    def __init__(self, subject: str, versions: Sequence[tuple[int, SchemaReader]], *, has_newest: bool = True) -> None:
        self.subject = subject
        self._readers: Mapping[int, SchemaReader] = dict(versions)
        newest_id, self._newest = versions[-1]
        self.newest_id = newest_id if has_newest else NO_SCHEMA
        self.type = versions[0][1].type
        names = dict(versions[0][1].names)
        for _, reader in versions[1:]:
            _add_names(names, reader.names)
            self.type = merge(self.type, reader.type)

    def column_of(
        self, values: pa.BinaryArray, documents: npt.NDArray[np.int64] | None = None
    ) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of the values, and the fault of each that is of no version, whose row has no meaning. A null value is
        a null in the column.

        ``documents``: id of the schema by which each value is judged that is a JSON document; below 0, or None: the newest.
        """
        if documents is not None and values.null_count:
            documents = documents[values.is_valid().to_numpy(zero_copy_only=False)]
        return _of_present(values, lambda present: self._of_present(present, documents))

    def given(self, values: pa.StructArray, bytes_max: int) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of values that came as columns, by the newest version, and the fault of each as ``column_of``.

        Raises ``UnfitType``; ``DocumentsTooLarge`` if the schema is checked on documents, which have more than ``bytes_max``.
        """

        def newest(present: pa.StructArray) -> tuple[pa.Array, dict[int, Fault]]:
            column, faults = self._newest.given(present, bytes_max)
            return conform(column, self.type), faults

        return _of_present(values, newest)

    def told(self, column: pa.Array, values: pa.BinaryArray | None) -> npt.NDArray[np.bool_]:
        """Return which values need not be kept, since the document that is made of their columns alone stands for them.

        Args:
            column: the values' column.
            values: the values; those with Confluent's header are kept. None: they came as columns.
        """
        shape = self._newest.shape
        if not self._newest.has_plain_documents and values is not None:
            return np.zeros(len(values), np.bool_)
        own = conform(column, self._newest.type) if self._newest.type != self.type else column
        if values is None:
            return columns_told(shape, own)
        told: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False).copy()
        told[told] = _schema_ids(values.filter(pa.array(told))) == _DOCUMENT
        rows = np.flatnonzero(told)
        if len(rows):
            places = pa.array(rows)
            told[rows] = documents_told(shape, values.take(places), own.take(places))
        return told

    def documents(self, column: pa.Array, bytes_max: int) -> pa.BinaryArray:
        """Return the documents of a column as ``given`` returns it. Raises ``DocumentsTooLarge``."""
        return render(column, self._newest.form, bytes_max=bytes_max)

    def _of_present(
        self, values: pa.BinaryArray, documents: npt.NDArray[np.int64] | None
    ) -> tuple[pa.Array, dict[int, Fault]]:
        ids = _schema_ids(values)
        if documents is not None:
            ids = np.where((ids == _DOCUMENT) & (documents >= 0), _DOCUMENT_BY - documents, ids)
        if len(ids) and (kind := int(ids.min())) == int(ids.max()):
            return self._of_one(kind, values)
        kinds = np.unique(ids)
        parts, order = [], []
        faults: dict[int, Fault] = {}
        for kind in kinds.tolist():
            rows = np.flatnonzero(ids == kind)
            column, found = self._of_one(kind, pc.take(values, pa.array(rows)))
            parts.append(column)
            order.append(rows)
            faults |= {int(rows[row]): fault for row, fault in found.items()}
        if not parts:
            return pa.nulls(0, self.type), {}
        places = np.argsort(np.concatenate(order), kind="stable")
        return pc.take(pa.concat_arrays(parts), pa.array(places)), faults

    def _of_one(self, kind: int, values: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of values that are all of one schema, or all documents."""
        schema_id = kind if kind >= 0 else self.newest_id if kind == _DOCUMENT else _DOCUMENT_BY - kind
        reader = self._readers.get(schema_id)
        if reader is None:
            what = f"its schema {schema_id} is not one of subject {self.subject!r}"
            fault = Fault("", NOT_JUDGED if schema_id == NO_SCHEMA else what, is_schema_unknown=True)
            return pa.nulls(len(values), self.type), dict.fromkeys(range(len(values)), fault)
        column, faults = reader.framed(values) if kind >= 0 else reader.documents(values)
        return conform(column, self.type), faults


_Typed = tuple[pa.Array, dict[int, Fault]]


def _of_present(values: pa.Array, typed: Callable[[pa.Array], _Typed]) -> _Typed:
    """Return what ``typed`` returns for the values that are not null, at their rows."""
    if not values.null_count:
        return typed(values)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    column, faults = typed(values.drop_null())
    rows = np.flatnonzero(present)
    return spread(column, present), {int(rows[row]): fault for row, fault in faults.items()}


def _add_names(known: dict[tuple[int, ...], str], more: Mapping[tuple[int, ...], str]) -> None:
    """Add names to those that are known. Raises ``TypeConflict`` for a number with another name."""
    for numbers in sorted(more, key=len):
        name = known.setdefault(numbers, more[numbers])
        if name != more[numbers]:
            raise TypeConflict(
                more[numbers], f"has the number {numbers[-1]}, which is the field of the column {name!r}"
            )


_DOCUMENT: Final = -1
"""A JSON document that is judged by the newest schema."""
_DOCUMENT_BY: Final = -2
"""Less the id of a schema: a JSON document that is judged by that schema."""


def _schema_ids(values: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Return the id of the schema that each value names; ``_DOCUMENT`` for a value without header."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    body = values.buffers()[2]
    if body is None or not body.size:
        return np.full(len(values), _DOCUMENT)
    data = np.frombuffer(body, np.uint8)
    starts = offsets[:-1]
    has_header = np.diff(offsets) >= HEADER_BYTES
    if not has_header.any():
        return np.full(len(values), _DOCUMENT)
    is_whole = has_header.all()
    at = starts if is_whole else starts[has_header]
    words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))[at + 1]
    are_framed = data[at] == 0
    if is_whole and (words == words[0]).all() and are_framed.all():
        return np.full(len(values), int(words[0].byteswap()))
    found = np.where(are_framed, words.byteswap().astype(np.int64), _DOCUMENT)
    if is_whole:
        return found
    ids = np.full(len(values), _DOCUMENT)
    ids[has_header] = found
    return ids


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record whose key or value is not of its schema. ``row``: its index among the records. ``part``: ``key`` or ``value``."""

    row: int
    part: str
    fault: Fault

    def __str__(self) -> str:
        """Describe what is wrong, with the path in the key or value; ``NOT_JUDGED`` if no schema could judge it."""
        if self.fault.what == NOT_JUDGED:
            return NOT_JUDGED
        where = f"{self.part}.{self.fault.path}" if self.fault.path else self.part
        return f"{where}: {self.fault.what}"


@dataclass(frozen=True)
class RecordReaders:
    """Readers of a topic's values and keys; None: those have no schema."""

    value: SubjectReader | None
    key: SubjectReader | None

    @property
    def columns(self) -> TypedColumns:
        """Typed columns that records get."""
        return TypedColumns(
            None if self.value is None else self.value.type, None if self.key is None else self.key.type
        )

    @cached_property
    def width(self) -> int:
        """Number of columns without parts."""
        return self.columns.width

    def takes(self, row_count: int, size_bytes: int) -> bool:
        """Return whether the columns of so many records, whose keys and values have so many bytes, are not too many values."""
        return row_count * self.width <= max(CELLS_MAX, size_bytes)

    def typed(
        self, records: pa.Table, given: pa.StructArray | None = None, bytes_max: int = 0
    ) -> tuple[pa.Table, list[Misfit]]:
        """Return the typed columns of records, and the records that don't fit, by row.

        A record that does not fit has null in both columns and the reason in ``data_error``. JSON documents are judged by the
        schemas that the records name (``document_schemas``), else by the newest, which the columns note.

        ``given``: the values, if they came as columns; ``bytes_max`` as for ``SubjectReader.given``, whose errors this raises.
        """
        misfits: list[Misfit] = []
        found: dict[str, pa.Array] = {}
        for part, name, reader, by in (
            ("value", DATA, self.value, VALUE_DOCUMENT_SCHEMA),
            ("key", KEY_DATA, self.key, KEY_DOCUMENT_SCHEMA),
        ):
            if reader is not None:
                if name == DATA and given is not None:
                    found[name], faults = reader.given(given, bytes_max)
                else:
                    values, documents = records.column(part).combine_chunks(), document_schemas_of(records, by)
                    found[name], faults = reader.column_of(values, documents)
                misfits += [Misfit(row, part, fault) for row, fault in faults.items()]
        misfits.sort(key=lambda misfit: misfit.row)
        errors = pa.nulls(records.num_rows, pa.string())
        if misfits:
            errors = _errors(misfits, records.num_rows)
            fits = errors.is_null()
            found = {name: pc.if_else(fits, column, pa.scalar(None, column.type)) for name, column in found.items()}
        columns = [errors if name == DATA_ERROR else found[name] for name in self._schema.names]
        return pa.Table.from_arrays(columns, schema=self._schema), misfits

    @cached_property
    def _schema(self) -> pa.Schema:
        value, key = (NO_SCHEMA if one is None else one.newest_id for one in (self.value, self.key))
        return with_note(pa.schema(self.columns.fields()), DocumentSchemas(value, key))


def _errors(misfits: Iterable[Misfit], count: int) -> pa.StringArray:
    texts: list[str | None] = [None] * count
    for misfit in misfits:
        texts[misfit.row] = texts[misfit.row] or str(misfit)
    return pa.array(texts, pa.string())
