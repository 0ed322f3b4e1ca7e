"""Protobuf's lists, many at once: the items of each message, in order, and what must be looked at alone."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from log_format.schemas.columns.cursor import ALL
from log_format.schemas.columns.map_keys import repeated_keys
from log_format.schemas.columns.protobuf_scalars import FIXED32, GROUP, VARINT, Node, Roots
from log_format.schemas.columns.protobuf_view import View

_ROUNDS_MIN: Final = 64
_ROWS_MIN: Final = 8
"""After so many items, and for so few values with more of them, each is judged alone, which then takes less."""


def repeated(view: View, node: Node, tag: int, tag_bytes: int) -> tuple[Roots, Any]:
    """Return the items of a field: the message of each, in order, and what was found.

    More items than a value's lists may have are not read: the value is doubtful.
    """
    rows = np.flatnonzero(view.has(ALL, tag, tag_bytes))
    if node.wire == GROUP:
        view.move(rows, view.at[rows], np.ones(len(rows), np.bool_))
        rows = rows[:0]
    owners: list[Roots] = []
    found: list[Any] = []
    while len(rows):
        if len(found) >= _ROUNDS_MIN and len(rows) < _ROWS_MIN:
            view.move(rows, view.at[rows], np.ones(len(rows), np.bool_))
            break
        values, behind, bad = node.found(view, view.at[rows] + tag_bytes, view.ends[rows])
        view.move(rows, behind, bad)
        over = view.budget[view.roots[rows]] < node.leaves * len(found)
        if over.any():
            view.doubt(rows, over)
        owners.append(rows)
        found.append(values)
        rows = rows[view.has(rows, tag, tag_bytes)]
    if not owners:
        return np.zeros(0, np.intp), None
    every = np.concatenate(owners)
    if len(owners) == 1:
        return every, found[0]
    order = np.argsort(every, kind="stable")
    return every[order], np.concatenate(found)[order]


def packed(view: View, node: Node, tag: int, tag_bytes: int) -> tuple[Roots, Any]:
    """Return the items of a packed field, as ``repeated`` does."""
    rows = np.flatnonzero(view.has(ALL, tag, tag_bytes))
    if not len(rows):
        return rows, None
    spans, behind, bad = view.spans(view.at[rows] + tag_bytes, view.ends[rows])
    view.move(rows, behind, bad)
    starts, lengths = spans[:, 0], spans[:, 1]
    total = int(lengths.sum())
    within = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(total)
    """Place of each byte of the spans."""
    owners = np.repeat(rows, lengths)
    if node.wire == VARINT:
        is_last = view.data[within] < 0x80
        is_first = np.ones(total, np.bool_)
        is_first[1:] = is_last[:-1]
        ends = np.cumsum(lengths)[lengths > 0] - 1
        is_first[ends[:-1] + 1] = True
        unended = ~is_last[ends]
        wrong = rows[lengths > 0][unended]
    else:
        size = 4 if node.wire == FIXED32 else 8
        is_first = (np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)) % size == 0
        wrong = rows[lengths % size != 0]
    at, owners = within[is_first], owners[is_first]
    if len(wrong):
        view.move(wrong, view.at[wrong], np.ones(len(wrong), np.bool_))
        kept = ~np.isin(owners, wrong)
        at, owners = at[kept], owners[kept]
    values, _, bad = node.found(view, at, view.ends[owners])
    if bad is not None and bad.any():
        view.doubtful[view.roots[owners[bad]]] = True
    return owners, values


def within_budget(view: View, leaves: int, rows: Roots, values: Any) -> tuple[Roots, Any]:
    """Return the items, of so many columns each; values whose lists take too many cells become doubtful and lose theirs."""
    if not len(rows):
        return rows, values
    np.subtract.at(view.budget, view.roots[rows], leaves)
    over = view.budget[view.roots[rows]] < 0
    if not over.any():
        return rows, values
    view.doubtful[view.roots[rows[over]]] = True
    return rows[~over], values[~over]


def doubt_twins(view: View, keys: pa.Array, rows: Roots) -> None:
    """Mark the values that have a key of a map twice."""
    view.doubtful[view.roots[rows[repeated_keys(keys, rows)]]] = True


def doubt_absent(view: View, items: pa.StructArray, rows: Roots) -> None:
    """Mark the values that have an entry of a map without a value, where that is a message."""
    if items.field(1).null_count:
        view.doubtful[view.roots[rows[items.field(1).is_null().to_numpy(zero_copy_only=False)]]] = True
