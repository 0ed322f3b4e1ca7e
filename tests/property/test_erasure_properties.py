"""An erasure takes what it names, and moves nothing else: any records, any requests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.records.erasing import Matcher, digest_of
from log_format.records.typed_columns import DATA, DATA_ERROR, TypedColumns, record_schema
from log_format.segments.segment import decode_footer, decode_row_groups, encode_segment
from log_format.topic.erasures import Erasure, erase_records

SECRET = b"a key of the cluster"
SCHEMA = record_schema(TypedColumns(data=pa.struct([("name", pa.string())])))

words = st.sampled_from([b"", b"a", b"b", b"user-7", b"\xff"])
names = st.sampled_from(["id", "other"])
headers = st.one_of(st.none(), st.lists(st.tuples(names, st.one_of(st.none(), words)), max_size=3))
data = st.one_of(st.none(), st.fixed_dictionaries({"name": st.one_of(st.none(), st.sampled_from(["Ann", "Bo"]))}))
rows = st.tuples(
    st.integers(0, 2), st.integers(0, 9), st.one_of(st.none(), words), st.one_of(st.none(), words), headers, data
)
requests = st.tuples(
    st.lists(st.tuples(st.one_of(st.none(), names), words), min_size=1, max_size=3),
    st.lists(st.integers(0, 20), max_size=3),
    st.one_of(st.none(), st.integers(0, 10)),
    st.sampled_from(["key", "nothing"]),
)


def table_of(given_rows: list[tuple[Any, ...]]) -> pa.Table:
    """Records in order of partition and offset, some offsets missing."""
    found = []
    for number, (partition, time_ms, key, value, pairs, typed) in enumerate(sorted(given_rows, key=lambda row: row[0])):
        error = "why" if typed is None and value == b"b" else None
        found.append((partition, number * 2, time_ms * 1000, key, value, pairs, typed, error))
    columns = list(zip(*found, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def is_meant(row: dict[str, Any], wanted: list[tuple[str | None, bytes]], ends: list[int], before: int | None) -> bool:
    """What a request means, said of one record as people would."""
    if row["partition"] >= len(ends) or row["offset"] >= ends[row["partition"]]:
        return False
    if before is not None and row["timestamp"].timestamp() * 1000 >= before:
        return False
    pairs = row["headers"] or []
    return any(
        row["key"] == value if name is None else any(pair["key"] == name and pair["value"] == value for pair in pairs)
        for name, value in wanted
    )


def is_empty(row: dict[str, Any]) -> bool:
    return row["value"] is None and not row["headers"] and row[DATA] is None and row[DATA_ERROR] is None


@settings(max_examples=200)
@given(st.lists(rows, min_size=1, max_size=20), st.lists(requests, min_size=1, max_size=3), st.integers(0, 3))
def test_only_what_is_named_goes(given_rows: list[Any], asked: list[Any], skipped: int) -> None:
    """Places and times stay; other records stay as they are; a second time there is nothing to do; counts are exact."""
    records = table_of(given_rows).slice(min(skipped, len(given_rows) - 1))
    erasures: list[Erasure] = []
    expected: dict[tuple[int, int], dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for number, (wanted, ends, before, keep) in enumerate(asked):
        matchers = tuple(Matcher(digest_of(SECRET, value, name), name) for name, value in wanted)
        erasures.append(
            Erasure(
                erasure_id=f"e{number}",
                requested_ms=1,
                wanted=matchers,
                ends=tuple(ends),
                before_ms=before,
                keep=keep,
            )
        )
    dropped: set[tuple[int, int]] = set()
    for row in records.to_pylist():
        place = row["partition"], row["offset"]
        expected[place] = dict(row)
        for erasure, (wanted, ends, before, keep) in zip(erasures, asked, strict=True):
            if is_meant(row, wanted, ends, before) and not (keep == "key" and is_empty(row)):
                counts[erasure.erasure_id] = counts.get(erasure.erasure_id, 0) + 1
                if keep == "nothing":
                    dropped.add(place)
                else:
                    expected[place] |= {"value": None, "headers": None, DATA: None, DATA_ERROR: None}
    done = erase_records(records, erasures, SECRET)
    assert done.counts == counts
    assert done.records.schema.equals(records.schema)
    assert done.records.to_pylist() == [row for place, row in expected.items() if place not in dropped]
    again = erase_records(done.records, erasures, SECRET)
    assert (again.counts, again.records) == ({}, done.records)


@settings(max_examples=50)
@given(st.lists(rows, min_size=1, max_size=20))
def test_no_byte_of_what_was_erased_is_in_the_new_segment(given_rows: list[Any]) -> None:
    """Neither as a value that nothing shows any more nor in a dictionary or statistics of the file."""
    mark = b"a-secret-of-somebody"
    shown = [
        (partition, time_ms, b"user-7", mark, [("id", mark)], {"name": mark.decode()})
        for partition, time_ms, *_ in given_rows
    ]
    records = table_of([*shown, *[row for row in given_rows if row[2] != b"user-7"]])
    matcher = Matcher(digest_of(SECRET, b"user-7"))
    erasure = Erasure(erasure_id="e", requested_ms=1, wanted=(matcher,), ends=(1_000,) * 3)
    done = erase_records(records, [erasure], SECRET).records
    written = encode_segment(done, compression="uncompressed")
    assert mark in encode_segment(records, compression="uncompressed").data
    assert mark not in written.data
    ref = written.ref("x")
    footer = decode_footer(written.data[ref.footer_start :], ref)
    whole = memoryview(written.data)[: footer.row_groups[-1].end]
    assert decode_row_groups(footer, range(len(footer.row_groups)), whole, with_typed=True).equals(done)
