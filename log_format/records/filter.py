"""A reader's filter of records by bytes of their key, headers and value. Arrow columns in, a mask out.

1. A condition on a header holds if one of the record's headers with that name has the value. ``*`` stands for any value, null
   too; every other text is the value's UTF-8, so ``name:`` is the empty value.
2. A condition's text is split at its first colon: a value may have colons, but a name can't.
3. A record without a key matches no key. An empty key is a key.
4. A part of a value is the UTF-8 of a text, compared exactly. A null value has no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

HEADERS_MAX: Final = 16
"""Most conditions on headers in one filter (a limit of the HTTP contract)."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HeaderCondition:
    """A condition that a header with this name has this value; None: any value."""

    name: str
    value: bytes | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``name:value`` or ``name:*``. Raises ``ValueError`` without a colon, or for text that is not UTF-8."""
        name, colon, value = text.partition(":")
        if not colon:
            raise ValueError("must be name:value")
        name.encode()
        return cls(name, None if value == "*" else value.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """A filter that a record passes if all conditions hold. ``key`` None: any key, or none."""

    headers: tuple[HeaderCondition, ...] = ()
    key: bytes | None = None
    value_contains: str | None = None
    """Text that the value contains; None: any value, or none."""

    def __post_init__(self) -> None:
        if len(self.headers) > HEADERS_MAX:
            raise ValueError(f"{len(self.headers)} conditions on headers, not at most {HEADERS_MAX}")

    @classmethod
    def from_texts(cls, headers: Sequence[str], key: bytes | None, value_contains: str | None = None) -> Self | None:
        """Return the filter of these texts; None if every record would pass.

        Args:
            headers: conditions on headers, each ``name:value`` or ``name:*``.
            key: the key; None for any or none.
            value_contains: text within the value; None for any value.

        Raises ``ValueError``.
        """
        if not headers and key is None and value_contains is None:
            return None
        return cls(headers=tuple(map(HeaderCondition.parse, headers)), key=key, value_contains=value_contains)

    def mask(self, records: pa.Table) -> Mask:
        """Return a mask of the records that pass. ``records`` has the columns of ``RECORD_SCHEMA`` that conditions name."""
        if self.key is None:
            passing = np.ones(records.num_rows, dtype=np.bool_)
        else:
            passing = _true(pc.equal(records.column("key"), pa.scalar(self.key, pa.binary())))
        if self.headers and passing.any():
            chunks = [self._headers_pass(chunk) for chunk in records.column("headers").chunks]
            passing &= np.concatenate(chunks)
        if self.value_contains is not None and passing.any():
            passing &= _true(pc.match_substring(records.column("value"), self.value_contains))
        return passing

    def _headers_pass(self, headers: pa.ListArray) -> Mask:
        passing = np.zeros(len(headers), dtype=np.bool_)
        if headers.null_count == len(headers):
            return passing
        # ``flatten`` skips elements of null lists and outside a slice, and so does ``list_parent_indices``.
        names, values = headers.flatten().flatten()
        parents = pc.list_parent_indices(headers).to_numpy()
        passing[:] = True
        for condition in self.headers:
            fits = pc.equal(names, pa.scalar(condition.name, pa.string()))
            if condition.value is not None:
                fits = pc.and_(fits, pc.equal(values, pa.scalar(condition.value, pa.binary())))
            here = np.zeros(len(headers), dtype=np.bool_)
            here[parents[_true(fits)]] = True
            passing &= here
        return passing


def _true(found: pa.ChunkedArray | pa.Array) -> Mask:
    """Return the booleans as a mask, null as false."""
    filled = pc.fill_null(found, False)
    return np.array(filled.to_numpy(zero_copy_only=False) if isinstance(filled, pa.Array) else filled.to_numpy())
