"""Values that their columns say: the cases in which counting members could be deceived."""

from __future__ import annotations

import pyarrow as pa
import pytest

from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.shape import Member, Record, Scalar
from log_format.schemas.columns.told_values import columns_told, documents_told

_LONG, _TEXT = Scalar(pa.int64()), Scalar(pa.string())
_OPEN = Record((Member("id", _LONG), Member("s", _TEXT, is_required=False)), is_open=True)
_DEFAULT = Record(
    (
        Member("a", _LONG, is_required=False, is_nullable=True),
        Member("b", _LONG, is_required=False, default=7),
    )
)


@pytest.mark.parametrize(
    ("shape", "text", "is_told"),
    [
        (_OPEN, b'{"id": 1, "s" : "a"}', True),
        (_OPEN, b'{"id":1,"s":"\\":"}', True),
        (_OPEN, b'{"id":1,"x":1}', False),
        (_OPEN, b'{"id":1,"s":"\\u0022:","x":1}', False),
        (_OPEN, b'{"id":1,"s":"\\"\\u003a","x":1}', False),
        (_OPEN, b'{"id":1,"s":"\\"\\u0020:","x":1}', False),
        (_DEFAULT, b'{"a":1,"b":2}', True),
        (_DEFAULT, b'{"a":1}', False),
        (_DEFAULT, b'{"a":null}', False),
    ],
)
def test_a_document_is_told_only_by_all_of_its_members(shape: Record, text: bytes, is_told: bool) -> None:
    """Strings that look like members count on both sides or not at all; a default does not stand for another member."""
    column, faults = Documents(shape).column_of(pa.array([text], pa.binary()))
    assert not faults
    assert documents_told(shape, pa.array([text], pa.binary()), column).tolist() == [is_told]


def test_columns_with_a_null_that_is_written_are_not_told() -> None:
    """A null that a document must have, wherever it is; other nulls are left out of it anyway."""
    inner = Record((Member("n", _LONG, is_nullable=True), Member("o", _LONG, is_required=False)))
    shape = Record((Member("inner", inner, is_required=False), Member("id", _LONG)))
    rows = [{"id": 1, "inner": {"n": 1}}, {"id": 2, "inner": {"o": 1}}, {"id": 3}, None]
    column = pa.array(
        rows, pa.struct([("inner", pa.struct([("n", pa.int64()), ("o", pa.int64())])), ("id", pa.int64())])
    )
    assert columns_told(shape, column).tolist() == [True, False, True, False]
    union = Record((Member("u", Record((Member("int", _LONG),), is_union=True)),))
    one = pa.array([{"u": {"int": 1}}], pa.struct([("u", pa.struct([("int", pa.int64())]))]))
    assert columns_told(union, one).tolist() == [False]
