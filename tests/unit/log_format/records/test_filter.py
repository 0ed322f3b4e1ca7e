"""A mask has a record exactly where each condition holds, over chunks, slices, null lists and repeated headers."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.records.filter import HEADERS_MAX, HeaderCondition, RecordFilter
from log_format.records.schema import HEADERS

Headers = list[tuple[str, bytes | None]] | None
Record = tuple[bytes | None, Headers]


def table_of(records: list[Record]) -> pa.Table:
    """The two columns that a filter reads."""
    return pa.table(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "headers": pa.array([headers for _, headers in records], HEADERS),
        }
    )


def passing(wanted: RecordFilter, records: list[Record]) -> list[bool]:
    """What the mask must be, one record at a time."""
    return [
        (wanted.key is None or key == wanted.key)
        and all(
            any(name == one.name and one.value in (None, value) for name, value in headers or ())
            for one in wanted.headers
        )
        for key, headers in records
    ]


RECORDS: list[Record] = [
    (b"k", [("a", b"1"), ("b", None)]),
    (b"", None),
    (None, []),
    (b"k", [("a", b"2"), ("a", b"1"), ("c", b"x:y")]),
    (b"\xff", [("a", None), ("c", b"")]),
    (None, [("", b"1"), ("a", b"*")]),
]


@pytest.mark.parametrize(
    ("headers", "key", "offsets"),
    [
        (["a:1"], None, [0, 3]),
        (["a:2"], None, [3]),
        (["a:*"], None, [0, 3, 4, 5]),
        (["b:*"], None, [0]),
        (["b:"], None, []),
        (["c:"], None, [4]),
        (["c:x:y"], None, [3]),
        (["a:1", "c:*"], None, [3]),
        (["a:1", "a:2"], None, [3]),
        ([":1"], None, [5]),
        (["A:1"], None, []),
        (["d:*"], None, []),
        ([], b"k", [0, 3]),
        ([], b"", [1]),
        ([], b"\xff", [4]),
        (["a:2"], b"k", [3]),
        (["a:*"], b"none", []),
    ],
)
def test_conditions(headers: list[str], key: bytes | None, offsets: list[int]) -> None:
    """All must hold, on bytes; one of several headers of a name is enough; ``*`` is any value, null too."""
    wanted = RecordFilter.from_texts(headers, key)
    assert wanted is not None
    assert [offset for offset, passes in enumerate(wanted.mask(table_of(RECORDS))) if passes] == offsets


def test_no_condition_is_no_filter() -> None:
    """Such a reader costs nothing."""
    assert RecordFilter.from_texts([], None) is None
    assert RecordFilter().mask(table_of(RECORDS)).all()


def test_texts_that_are_no_condition() -> None:
    """A text without a colon, one that is not UTF-8, and one condition too many are refused."""
    for text in ("", "a", "a=1", "\ud800:1", "a:\ud800"):
        with pytest.raises(ValueError):
            HeaderCondition.parse(text)
    with pytest.raises(ValueError, match="at most 16"):
        RecordFilter.from_texts(["a:1"] * (HEADERS_MAX + 1), None)


@pytest.mark.parametrize(
    ("text", "offsets"),
    [("needle", [0, 3]), ("Needle", [4]), ("\u00e9", [3]), (".*", [6]), ("e", [0, 3, 4]), ("nothing", [])],
)
def test_a_part_of_the_value(text: str, offsets: list[int]) -> None:
    """Letter for letter, in any bytes; a null value has no part."""
    values = [b"a needle", None, b"", "\u00e9 needle".encode(), b"Needle", b"\xffn\xfe", b"1.*2"]
    table = pa.table(
        {
            "key": pa.array([b"k"] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([None] * len(values), HEADERS),
        }
    )
    wanted = RecordFilter.from_texts([], None, text)
    assert wanted is not None
    assert [index for index, holds in enumerate(wanted.mask(table)) if holds] == offsets
    both = RecordFilter.from_texts([], b"other", text)
    assert both is not None
    assert not both.mask(table).any()


small_bytes = st.sampled_from([b"", b"1", b"2", b"\xff", b"*"])
some_headers = st.none() | st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.none() | small_bytes), max_size=3)
some_records = st.lists(st.tuples(st.none() | small_bytes, some_headers), max_size=12)
conditions = st.builds(HeaderCondition, st.sampled_from(["", "a", "b"]), st.none() | small_bytes)


@given(
    pieces=st.lists(some_records, max_size=4),
    headers=st.lists(conditions, max_size=3),
    key=st.none() | small_bytes,
    cut=st.tuples(st.integers(0, 8), st.integers(0, 40)),
)
def test_any_slice_of_any_chunks(
    pieces: list[list[Record]], headers: list[HeaderCondition], key: bytes | None, cut: tuple[int, int]
) -> None:
    """The mask of a slice of several chunks is what a look at each record gives."""
    tables = [table_of(piece) for piece in pieces]
    records = [record for piece in pieces for record in piece]
    table = pa.concat_tables([table_of([]), *tables]).slice(*cut)
    wanted = RecordFilter(headers=tuple(headers), key=key)
    assert wanted.mask(table).tolist() == passing(wanted, records[cut[0] : cut[0] + cut[1]])
