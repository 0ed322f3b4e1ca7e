"""Names of the types without parts that columns have, in schemas of Delta (protocol section "Primitive Types")."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

_NAMES: Final = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
_ARROW: Final = {name: arrow for arrow, name in _NAMES.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")


def delta_name(arrow: pa.DataType) -> str:
    """Return the name of a type. Raises ``KeyError`` for a type that no column has, or that has parts."""
    return f"decimal({arrow.precision},{arrow.scale})" if pa.types.is_decimal(arrow) else _NAMES[arrow]


def arrow_type(name: str) -> pa.DataType:
    """Return the type of a name. Raises ``KeyError`` for a type that no column has, or that has parts."""
    decimal = _DECIMAL.fullmatch(name)
    return _ARROW[name] if decimal is None else pa.decimal128(int(decimal[1]), int(decimal[2]))
