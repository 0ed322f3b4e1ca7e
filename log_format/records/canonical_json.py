"""Columns as JSON documents, made by Arrow column by column: the canonical document of each struct.

1. The members are in the order of the columns, without white space or line breaks. Strings escape only quotes, backslashes and
   control characters.
2. A timestamp is a text like ``2026-01-31T23:59:59.123456Z``, a date one like ``2026-01-31``, a decimal a text with all digits of
   its scale, binary is base64. A real number has the fewest digits that give it back.
3. The same columns give the same bytes, whatever else is rendered with them.

Reading documents does not belong here (``log_format/schemas/columns``).

Source: RFC 8259; RFC 4648, section 4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SLICE_BYTES: Final = 16 * 1024 * 1024
"""Most bytes, by an upper bound, that are rendered as one array."""

_QUOTE, _BACKSLASH, _SPACE = 0x22, 0x5C, 0x20
_SHORT_ESCAPES: Final = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r"}
_ESCAPE_BYTES_MAX: Final = 6
_MOMENT_BYTES: Final = len("2026-01-31 23:59:59.123456")
_DATE_END: Final = len("2026-01-31")
_BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)

_Parts = list[str | pa.StringArray]


class DocumentsTooLarge(Exception):
    """The documents have more bytes than they may."""


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """What the columns' types don't say of documents.

    Args:
        nulls: paths of members that are written as null where they are null; others are left out. None: all of them.
        unions: paths of structs that stand for the one member that is set.
    """

    nulls: Collection[str] | None = frozenset()
    unions: Collection[str] = frozenset()

    def has_null(self, path: str) -> bool:
        """Return whether the member is written where it is null."""
        return self.nulls is None or path in self.nulls


NULLS_LEFT_OUT: Final = DocumentForm()
NULLS_WRITTEN: Final = DocumentForm(nulls=None)


def render(values: pa.StructArray, form: DocumentForm = NULLS_LEFT_OUT, *, bytes_max: int | None = None) -> pa.Array:
    """Return the document of each struct: a ``binary`` array, null where the struct is.

    Types are those of typed columns: numbers are finite, dates and timestamps (microseconds) of the years 1 to 9999, names of
    maps strings.

    Args:
        values: the structs.
        form: what their types don't say.
        bytes_max: most bytes of all documents together; None: any number that one array takes.

    Raises:
        DocumentsTooLarge: they have more bytes, which is noticed before many more than ``bytes_max`` are made.
    """
    found = [pa.array([], pa.binary())]
    size = 0
    for piece in _slices(values):
        found.append(_text(piece, "", form).view(pa.binary()))
        size += found[-1].nbytes
        if bytes_max is not None and size > bytes_max:
            raise DocumentsTooLarge
    return pa.concat_arrays(found) if len(found) > 2 else found[-1]


def bytes_at_most(values: pa.Array) -> int:
    """Return an upper bound of the bytes of all documents together, without rendering them."""
    return int(bytes_at_most_within(values, np.array([0, len(values)]))[0])


def bytes_at_most_within(values: pa.Array, bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return an upper bound of the bytes of the documents from each of ``bounds`` to the next one, without rendering them."""
    arrow, counts = values.type, bounds[1:] - bounds[:-1]  # which numpy's own diff takes ten times as long for
    if pa.types.is_struct(arrow):
        each = 4
        sizes = []
        for index, field in enumerate(arrow):
            each += len(_literal(field.name)) + 1
            if (most := _most_bytes(field.type)) is None:
                sizes.append(bytes_at_most_within(values.field(index), bounds))
            else:
                each += most
        return sum(sizes, counts * each)
    if pa.types.is_map(arrow) or pa.types.is_list(arrow):
        first, count = _span(values)
        within = np.asarray(values.offsets)[bounds] - first
        parts = [values.keys, values.items] if pa.types.is_map(arrow) else [values.values]
        items = [bytes_at_most_within(part.slice(first, count), within) + within[1:] - within[:-1] for part in parts]
        return sum(items, 4 * counts)
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        offsets = (
            np.frombuffer(values.buffers()[1], np.int32)[values.offset :] if len(values) else np.zeros(1, np.int32)
        )
        grown = 2 if pa.types.is_binary(arrow) else _ESCAPE_BYTES_MAX if _needs_escapes(_data(values)) else 1
        found: npt.NDArray[np.int64] = (
            grown * (offsets[bounds[1:]] - offsets[bounds[:-1]]).astype(np.int64) + 6 * counts
        )
        return found
    most = _most_bytes(arrow)
    assert most is not None
    return counts * most


def _most_bytes(arrow: pa.DataType) -> int | None:
    """Return an upper bound of the bytes of any value of a type; None if some values have more than others by their length."""
    if pa.types.is_nested(arrow) or pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return None
    return arrow.precision + 6 if pa.types.is_decimal(arrow) else _MOMENT_BYTES + 4


def largest_at_most(values: pa.Array) -> int:
    """Return an upper bound of the bytes of the largest of the documents, without rendering them."""
    arrow = values.type
    if pa.types.is_struct(arrow):
        return bytes_at_most(pa.nulls(1, arrow)) + sum(map(largest_at_most, values.flatten()))
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        longest = pc.max(pc.binary_length(values)).as_py() or 0
        return bytes_at_most(values.slice(0, 1)) + _ESCAPE_BYTES_MAX * longest
    return bytes_at_most(values if pa.types.is_nested(arrow) else values.slice(0, 1))


def _slices(values: pa.StructArray) -> Iterator[pa.StructArray]:
    bound = bytes_at_most(values)
    if bound <= SLICE_BYTES or len(values) <= 1:
        if len(values):
            yield values
        return
    middle = len(values) // 2
    yield from _slices(values.slice(0, middle))
    yield from _slices(values.slice(middle))


def _text(values: pa.Array, path: str, form: DocumentForm) -> pa.StringArray:
    """Return the text of each value, null where it is null."""
    return _joined(_parts(values, path, form), len(values))


def _parts(values: pa.Array, path: str, form: DocumentForm) -> _Parts:
    """Return the texts and columns that one after another are the text of each value, null where it is null."""
    arrow = values.type
    if pa.types.is_struct(arrow):
        return [_union(values, path, form) if path in form.unions else _object(values, path, form)]
    if pa.types.is_map(arrow):
        return _list_parts(values, _entries(values, path, form), "{}")
    if pa.types.is_list(arrow):
        items = _text(values.values.slice(*_span(values)), f"{path}[]", form)
        return _list_parts(values, items.fill_null("null") if items.null_count else items, "[]")
    if pa.types.is_string(arrow):
        return ['"', _escaped(values), '"']
    if pa.types.is_binary(arrow):
        return ['"', _base64(values), '"']
    if pa.types.is_decimal(arrow):
        return ['"', _digits(values), '"']
    if pa.types.is_timestamp(arrow):
        return ['"', _moments(values), 'Z"']
    if pa.types.is_date(arrow):
        return ['"', values.cast(pa.string()), '"']
    return [values.cast(pa.string())]


def _object(values: pa.StructArray, path: str, form: DocumentForm) -> pa.StringArray:
    members: list[tuple[_Parts, bool]] = []
    """Parts of each member, and whether it may be null and is left out then."""
    for field, child in zip(values.type, values.flatten(), strict=True):
        where = f"{path}.{field.name}" if path else field.name
        has_null = bool(child.null_count)
        parts = _parts(child, where, form)
        if has_null and form.has_null(where):
            parts, has_null = [_joined(parts, len(child)).fill_null("null")], False
        members.append(([_literal(field.name), *parts], has_null))
    found = _members(members, len(values))
    return found if not values.null_count else pc.if_else(values.is_valid(), found, pa.scalar(None, pa.string()))


def _members(members: Sequence[tuple[_Parts, bool]], count: int) -> pa.StringArray:
    """Return objects with these members; those that are null are left out."""
    if not any(has_null for _, has_null in members):
        parts: _Parts = ["{"]
        for index, (one, _) in enumerate(members):
            parts += [",", *one] if index else one
        return _joined([*parts, "}"], count)
    # Members that are never null, one after another, are one text, since each text is written twice.
    texts: list[str | pa.StringArray] = []
    together: _Parts = []
    for one, has_null in members:
        if not has_null:
            together += [",", *one] if together else one
            continue
        if together:
            texts.append(_joined(together, count))
        texts.append(_joined(one, count))
        together = []
    if together:
        texts.append(_joined(together, count))
    # Arrow 26 drops rows without any text, so each row gets one.
    some = next((text for text in texts if isinstance(text, str) or not text.null_count), None)
    inner = pc.binary_join_element_wise(*([""] if some is None else []), *texts, ",", null_handling="skip")
    if some is None:
        inner = pc.ascii_ltrim(inner, ",")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _union(values: pa.StructArray, path: str, form: DocumentForm) -> pa.StringArray:
    texts = [
        _text(child, f"{path}.{field.name}" if path else field.name, form)
        for field, child in zip(values.type, values.flatten(), strict=True)
    ]
    return pc.coalesce(*texts)


def _entries(values: pa.MapArray, path: str, form: DocumentForm) -> pa.StringArray:
    span = _span(values)
    items = _text(values.items.slice(*span), f"{path}{{}}", form)
    names = values.keys.slice(*span)
    return _joined(['"', _escaped(names), '":', items.fill_null("null") if items.null_count else items], span[1])


def _list_parts(values: pa.ListArray | pa.MapArray, items: pa.StringArray, braces: str) -> _Parts:
    offsets = np.asarray(values.offsets)
    mask = values.is_null() if values.null_count else None
    lists = pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), items, mask=mask)
    return [braces[0], pc.binary_join(lists, ","), braces[1]]


def _span(values: pa.ListArray | pa.MapArray) -> tuple[int, int]:
    """Return index of the first item, and number of items, that lists refer to."""
    offsets = values.offsets
    first = offsets[0].as_py()
    return first, offsets[-1].as_py() - first


def _joined(parts: _Parts, count: int) -> pa.StringArray:
    """Join the parts of each row; a row is null if one of its parts is."""
    merged: _Parts = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    if len(merged) == 1:
        (only,) = merged
        return pa.repeat(only, count) if isinstance(only, str) else only
    return pc.binary_join_element_wise(*merged, "")


@lru_cache(maxsize=1024)
def _literal(name: str) -> str:
    return json.dumps(name, ensure_ascii=False) + ":"


def _data(values: pa.StringArray | pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of all values, one behind another."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)
    return np.frombuffer(data, np.uint8)[bounds[values.offset] : bounds[values.offset + len(values)]]


def _needs_escapes(data: npt.NDArray[np.uint8]) -> bool:
    text = data.tobytes()  # in which looking for one byte is faster than comparing all
    return b'"' in text or b"\\" in text or bool(len(data) and data.min() < _SPACE)


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts as strings of JSON have them."""
    data = _data(texts)
    if not _needs_escapes(data):
        return texts
    texts = pc.replace_substring(texts, "\\", "\\\\")
    texts = pc.replace_substring(texts, '"', '\\"')
    for code in np.unique(data[data < _SPACE]).tolist():
        texts = pc.replace_substring(texts, chr(code), _SHORT_ESCAPES.get(code, f"\\u{code:04x}"))
    return texts


def _moments(values: pa.TimestampArray) -> pa.StringArray:
    # Without a zone Arrow writes them much faster. All texts have the same length.
    return _present(values.view(pa.int64()), _moments_of)


def _moments_of(numbers: pa.Int64Array) -> pa.StringArray:
    texts = numbers.view(pa.timestamp("us")).cast(pa.string())
    characters = _data(texts).reshape(-1, _MOMENT_BYTES).copy()
    characters[:, _DATE_END] = ord("T")
    bounds = np.arange(0, characters.size + 1, _MOMENT_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(bounds), pa.py_buffer(characters))


def _digits(values: pa.Decimal128Array) -> pa.StringArray:
    """Return decimals with all digits of their scale, which Arrow itself would write with an exponent where they are small."""
    whole = pa.decimal128(values.type.precision, 0)
    numbers = pa.Array.from_buffers(whole, len(values), values.buffers(), offset=values.offset)
    texts = numbers.cast(pa.string())
    scale = values.type.scale
    if not scale:
        return texts
    is_negative = pc.starts_with(texts, "-")
    plain = pc.utf8_lpad(pc.replace_substring(texts, "-", ""), scale + 1, "0")
    sign = pc.if_else(is_negative, "-", "")
    ends = pc.utf8_slice_codeunits(plain, -scale)
    return pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(plain, 0, -scale), ".", ends, "")


def _base64(values: pa.BinaryArray) -> pa.StringArray:
    return _present(values, _base64_of)


def _base64_of(values: pa.BinaryArray) -> pa.StringArray:
    lengths = np.asarray(pc.binary_length(values)).astype(np.int64)
    groups = -(-lengths // 3)
    ends = np.cumsum(groups)
    padded = np.zeros(3 * int(ends[-1]) if len(ends) else 0, np.uint8)
    data = _data(values)
    starts = 3 * (ends - groups)
    before = np.cumsum(lengths) - lengths
    padded[np.arange(len(data)) + np.repeat(starts - before, lengths)] = data
    three = padded.reshape(-1, 3).astype(np.uint32)
    bits = three[:, 0] << 16 | three[:, 1] << 8 | three[:, 2]
    text = _BASE64[np.stack([bits >> 18, bits >> 12 & 63, bits >> 6 & 63, bits & 63], axis=1)]
    last = ends[lengths % 3 > 0] - 1
    text[last, 3] = ord("=")
    text[ends[lengths % 3 == 1] - 1, 2] = ord("=")
    bounds = np.concatenate([[0], 4 * ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(text)))


def _present(values: pa.Array, made: Callable[[pa.Array], pa.StringArray]) -> pa.StringArray:
    """Return what ``made`` returns for values that are not null, and null for the others."""
    if not values.null_count:
        return made(values)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    places = pa.array(np.cumsum(present) - 1, mask=~present)
    found = made(values.drop_null())
    return pc.take(found, places) if len(found) else pa.nulls(len(values), pa.string())
