"""Documents that are rendered from columns are the same bytes for ever: readers compare, sign and hash what they get.

``documents/`` has a file for each form, a document a line. ``python tests/golden/test_golden_documents.py`` writes those that
are missing and never touches one that is there.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from log_format.records.canonical_json import NULLS_LEFT_OUT, NULLS_WRITTEN, DocumentForm, render
from log_format.records.schema import TIMESTAMP

DIRECTORY = Path(__file__).parent / "documents"
FORMS = {
    "1-nulls-left-out": NULLS_LEFT_OUT,
    "1-nulls-written": NULLS_WRITTEN,
    "1-by-schema": DocumentForm(nulls=frozenset({"int", "struct.a", "union"}), unions=frozenset({"union"})),
}
"""File -> form; the number is the generation."""
_MEMBERS = pa.struct(
    [
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", TIMESTAMP),
        ("decimal", pa.decimal128(38, 10)),
        ("whole", pa.decimal128(20, 0)),
        ("list", pa.list_(pa.float64())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("struct", pa.struct([("a", pa.string()), ("b", pa.list_(pa.struct([("c", pa.date32())])))])),
        ("union", pa.struct([("int", pa.int32()), ("string", pa.string())])),
    ]
)


def golden_columns() -> pa.Array:
    """Every type at its ends, every kind of null and empty, and each character that JSON escapes."""
    controls = "".join(map(chr, range(32)))
    rows = [
        {},
        {
            "int": -(2**31),
            "long": 2**63 - 1,
            "float": 0.1,
            "double": 0.1,
            "boolean": True,
            "string": f'"\\/{controls}\x7fä\u2028\U00010400',
            "binary": bytes(range(256)),
            "date": date(1, 1, 1),
            "timestamp": datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            "decimal": Decimal("-0.0000000001"),
            "whole": Decimal(2**64 - 1),
            "list": [1e300, None, 5e-324, -1.5, 1e16, 123456789012345680.0],
            "map": [('k"', 1), ("", None)],
            "struct": {"a": None, "b": [{"c": None}, None, {"c": date(2026, 1, 31)}]},
            "union": {"int": 5},
        },
        {
            "int": 0,
            "long": -(2**63),
            "float": 3.4028234663852886e38,
            "double": 3.0,
            "boolean": False,
            "string": "",
            "binary": b"",
            "date": date(9999, 12, 31),
            "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
            "decimal": Decimal("9999999999999999999999999999.9999999999"),
            "whole": Decimal(0),
            "list": [],
            "map": [],
            "struct": {"a": "a", "b": []},
            "union": {"string": "5"},
        },
        {"decimal": Decimal(0), "binary": b"a", "struct": {}},
        {"binary": b"ab", "double": -0.0},
    ]
    return pa.array(rows, _MEMBERS)


def _text(form: DocumentForm) -> bytes:
    return b"".join(text + b"\n" for text in render(golden_columns(), form).to_pylist())


def write_missing() -> list[str]:
    """Write what is missing; the names of what was written."""
    DIRECTORY.mkdir(exist_ok=True)
    missing = [name for name in FORMS if not (DIRECTORY / f"{name}.ndjson").exists()]
    for name in missing:
        (DIRECTORY / f"{name}.ndjson").write_bytes(_text(FORMS[name]))
    return missing


@pytest.mark.parametrize("name", FORMS)
def test_documents_are_the_committed_bytes(name: str) -> None:
    """Another release of Arrow, numpy or Python may not change a byte."""
    assert _text(FORMS[name]) == (DIRECTORY / f"{name}.ndjson").read_bytes()


def test_every_golden_file_has_its_test() -> None:
    """A file that no test reads would prove nothing, and a lost one would go unseen."""
    assert {path.stem for path in DIRECTORY.iterdir()} == set(FORMS)


if __name__ == "__main__":
    print(*(write_missing() or ["Nothing is missing."]), sep="\n")
