"""Bytes -> records: nothing lost, nothing doubled, however the bytes come and wherever they are cut."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.collect.position import Position
from tidelog.collect.split import Records, Remainder, split

DATES = re.compile(rb"^\d")


def _values(records: Records) -> list[bytes]:
    bounds = records.offsets.tolist()
    return [records.data[start:end] for start, end in itertools.pairwise(bounds)]


def _all(block: bytes, *, rest: Remainder = Remainder.LEAVE, size: int = 100, start: Position | None = None) -> Records:
    return split(block, start or Position(), rest=rest, value_bytes_max=size)


@pytest.mark.parametrize(
    ("block", "values"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\n\nb\nrest", [b"a", b"", b"", b"b"]),
        (b"a\r\nb\n\r\n", [b"a", b"b", b""]),
        (b"a\rb\r\r\n", [b"a\rb\r"]),
        (b"\xff\x00\xfe\n", [b"\xff\x00\xfe"]),
    ],
)
def test_lines_are_what_lies_between_line_breaks(block: bytes, values: list[bytes]) -> None:
    """LF and CR LF end a line; every other byte is content, also what is no text."""
    assert _values(_all(block)) == values


def test_a_line_without_its_end_waits_or_is_a_part() -> None:
    """It is left while its end may come; sent without, it is numbered, and so is what follows of it."""
    assert _all(b"a\nunfin").consumed == 2
    sent = _all(b"unfin", rest=Remainder.PART)
    assert (_values(sent), sent.parts.tolist(), sent.next) == ([b"unfin"], [1], Position(offset=5, line=1, part=1))
    behind = _all(b"ished\nb\n", start=sent.next)
    assert (_values(behind), behind.parts.tolist(), behind.lines.tolist()) == ([b"ished", b"b"], [2, 0], [1, 2])
    assert _values(_all(b"\nb\n", start=sent.next)) == [b"b"]


def test_a_line_too_long_is_cut_into_numbered_parts() -> None:
    """No value is above the bound, and the parts together are the line."""
    records = _all(b"short\n" + b"0123456789" * 2 + b"end\nlast\n", size=10)
    assert _values(records) == [b"short", b"0123456789", b"0123456789", b"end", b"last"]
    assert records.parts.tolist() == [0, 1, 2, 3, 0]
    assert records.lines.tolist() == [1, 2, 2, 2, 3]


def test_a_line_without_end_is_bounded() -> None:
    """More than a record's size of one line is sent before its end is there; a line of exactly that size is whole."""
    records = _all(b"x" * 25, size=10)
    assert (records.consumed, records.parts.tolist(), records.whole) == (20, [1, 2], False)
    assert _all(b"x" * 10, size=10).consumed == 0
    assert _all(b"x" * 10 + b"\n", size=10).parts.tolist() == [0]


def test_records_of_several_lines() -> None:
    """A line that matches begins a record; the last one waits until another begins, or is taken for whole."""
    block = b"1 a\n  b\r\n\n2 c\n  d\n"
    left = split(block, Position(), rest=Remainder.LEAVE, value_bytes_max=100, first_line=DATES)
    assert (_values(left), left.consumed, left.next) == ([b"1 a\n  b\r\n"], 10, Position(offset=10, line=4))
    whole = split(block[10:], left.next, rest=Remainder.WHOLE, value_bytes_max=100, first_line=DATES)
    assert (_values(whole), whole.lines.tolist(), whole.parts.tolist()) == ([b"2 c\n  d"], [4], [0])


def test_what_is_before_the_first_match_is_a_record() -> None:
    """Nothing is dropped for want of a first line."""
    records = split(b"banner\n1 a\n2 b\n", Position(), rest=Remainder.LEAVE, value_bytes_max=100, first_line=DATES)
    assert _values(records) == [b"banner", b"1 a"]


def test_a_line_that_is_not_all_there_begins_nothing_yet() -> None:
    """Whether it is a first line is known when it is whole."""
    anchored = re.compile(rb"^\d+ start$")
    block = b"1 start\nmore\n2 start"
    left = split(block, Position(), rest=Remainder.LEAVE, value_bytes_max=100, first_line=anchored)
    assert left.consumed == 0
    block += b"ling\n3 start\n"
    later = split(block, Position(), rest=Remainder.LEAVE, value_bytes_max=100, first_line=anchored)
    assert _values(later) == [b"1 start\nmore\n2 startling"]


CONTENT = st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"1", b"bb", b"\xff", b"c" * 7]), max_size=40).map(b"".join)


@settings(max_examples=300)
@given(data=CONTENT, cuts=st.lists(st.integers(0, 200), max_size=6), size=st.integers(1, 20), several=st.booleans())
def test_nothing_is_lost_however_the_bytes_come(data: bytes, cuts: list[int], size: int, several: bool) -> None:
    """Read in any pieces, with what waits put before the next piece, the values and their line breaks are the file."""
    pattern = DATES if several else None
    position, waiting, rebuilt = Position(), b"", b""
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    done = 0
    for end in ends:
        waiting += data[done:end]
        done = end
        rest = Remainder.PART if end == len(data) else Remainder.LEAVE
        records = split(waiting, position, rest=rest, value_bytes_max=size, first_line=pattern)
        assert all(len(value) <= size for value in _values(records))
        assert records.next.offset == position.offset + records.consumed
        assert records.next.line == 1 + data[: records.next.offset].count(b"\n")
        again = split(
            waiting[: records.consumed],
            position,
            rest=Remainder.WHOLE if records.whole else Remainder.PART,
            value_bytes_max=size,
            first_line=pattern,
        )
        if pattern is None:
            assert (_values(again), again.parts.tolist(), again.next) == (
                _values(records),
                records.parts.tolist(),
                records.next,
            )
        rebuilt += b"".join(_values(records))
        waiting, position = waiting[records.consumed :], records.next
    assert waiting == b""
    if not several and b"\r" not in data:
        assert rebuilt == data.replace(b"\n", b"")
    assert re.sub(rb"[\r\n]", b"", rebuilt) == re.sub(rb"[\r\n]", b"", data)


@settings(max_examples=200)
@given(data=CONTENT)
def test_lines_are_those_of_the_file(data: bytes) -> None:
    """With room enough the records are the lines, numbered as an editor does."""
    records = _all(data, rest=Remainder.WHOLE, size=1_000)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    elif lines:
        lines[-1] += b"\n"  # its CR, if there is one, is no line break
    expected = [line.removesuffix(b"\r") for line in lines]
    expected = [line.removesuffix(b"\n") for line in expected]
    assert _values(records) == expected
    assert records.lines.tolist() == list(range(1, len(lines) + 1))
