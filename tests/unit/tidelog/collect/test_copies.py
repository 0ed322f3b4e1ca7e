"""A file is left out as a copy only when rotation gave it its name and it has the same bytes; and that is told."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from tests.support.collect_bench import Workbench

pytestmark = pytest.mark.timeout(60)
HEADER = b"# a header that is longer than the bytes by which a file is recognised\n" * 4
NAMES = [
    ("a.log", "a.log.1", True),
    ("a.log", "a.log.1.gz", True),
    ("a.log", "a.log.gz", True),
    ("a.log", "a.log-20250131", True),
    ("a.log", "a-1.log", True),
    ("a.log", "a.1.log", True),
    ("a.log", "a-2025-01-31T10-00-00.000.log.gz", True),
    ("a.log", "a.log.2025-01-31_10", True),
    ("a.log", "old/a.log.1", True),
    ("f1.log", "f10.log", False),
    ("web.log", "web2.log", False),
    ("web.log", "web-errors.log", False),
    ("web-1.log", "web-2.log", False),
    ("a/0.log", "b/0.log", False),
    ("a/0.log", "b/0.log.1", False),
    ("exports-20250131.log.gz", "exports-20250201.log.gz", False),
]


def _left_out(bench: Workbench) -> list[str]:
    return [fields["file"] for _, event, fields in bench.journal.told if event.startswith("File is skipped")]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("looks", ["at once", "one after the other"])
@pytest.mark.parametrize(("name", "other", "rotated"), NAMES)
def test_files_with_the_same_bytes_are_copies_by_a_name_of_rotation_only(
    tmp_path: Path, name: str, other: str, rotated: bool, looks: str
) -> None:
    """Everything else is read; a copy is left out while its original is there, and told once when it lasts."""
    bench = Workbench(tmp_path, "**/*.log*")
    _write(bench.logs / name, b"same\n")
    if looks == "one after the other":
        bench.run()
    _write(bench.logs / other, b"same\n")
    bench.run()
    assert bench.values() == [b"same"] * (1 if rotated else 2)
    assert _left_out(bench) == []
    for _ in range(2):
        bench.pass_time(70)
        bench.run()
    assert bench.values() == [b"same"] * (1 if rotated else 2)
    assert _left_out(bench) == ([str(bench.logs / other)] if rotated else [])
    assert bench.collector.count_skipped(report=True) == rotated


def test_fifty_files_with_one_equal_line(bench: Workbench) -> None:
    """Each of them is read."""
    for number in range(50):
        bench.write(f"f{number}.log", b"same\n")
    bench.run()
    assert bench.values() == [b"same"] * 50


def test_two_files_that_grow_alike(bench: Workbench) -> None:
    """Both are read, at each look."""
    for number in range(3):
        for name in ("web.log", "web2.log"):
            bench.write(name, b"%d\n" % number)
        bench.run()
    assert sorted(bench.values()) == sorted([b"0", b"1", b"2"] * 2)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_a_shorter_file_that_begins_as_one_that_is_gone(bench: Workbench, killed: bool, packed: bool) -> None:
    """It has other bytes behind the first ones: it is read."""
    old = bench.write("a.log", HEADER + b"".join(b"old %d\n" % number for number in range(5_000)))
    bench.run()
    old.unlink()
    if killed:
        bench.kill()
    lines = [b"new %d" % number for number in range(500)]
    _write(bench.logs / ("a.log.1.gz" if packed else "a.log.1"), HEADER + b"\n".join(lines) + b"\n")
    before = len(bench.values())
    bench.run()
    bench.run()
    assert bench.values()[before + 4 :] == lines


@pytest.mark.parametrize("name", ["a.log.1", "a.log.1.gz"])
def test_files_that_begin_alike_are_told_apart_at_one_look(bench: Workbench, name: str) -> None:
    """Nothing was read of either, and 256 bytes are the same: what is behind them decides, at once."""
    bench.write("a.log", HEADER + b"one\n" * 1_000)
    _write(bench.logs / name, HEADER + b"two\n" * 999)
    bench.start()
    bench.send()
    assert (bench.values().count(b"one"), bench.values().count(b"two")) == (1_000, 999)


@pytest.mark.parametrize("name", ["a.log.1", "a.log.1.gz"])
def test_a_copy_that_lacks_the_last_lines(bench: Workbench, name: str) -> None:
    """Made and truncated between two looks, in which more was read: it is known by what was read up to there."""
    path = bench.write("a.log", HEADER + b"".join(b"line %d\n" % number for number in range(300)))
    bench.run()
    data = path.read_bytes()
    bench.write("a.log", b"more 1\nmore 2\n")
    bench.run()
    _write(bench.logs / name, data + b"more 1\n")
    os.truncate(path, 0)
    bench.run()
    bench.run()
    assert len(bench.values()) == len(set(bench.values())) + 3 == 306


def test_a_copy_that_grows_while_it_is_made(bench: Workbench) -> None:
    """It is left alone as long as it grows; when it is another file after all, it is read."""
    path = bench.write("a.log", HEADER + b"one\n" * 100)
    bench.run()
    copy = bench.write("a.log.1", HEADER)
    bench.run()
    bench.write("a.log.1", b"one\n" * 50)
    bench.run()
    assert len(bench.values()) == 104
    bench.write("a.log.1", b"two\n")
    bench.run()
    bench.run()
    assert bench.values()[104:] == [*HEADER.splitlines(), *([b"one"] * 50), b"two"]
    assert path.exists()
    assert copy.exists()


def test_moved_on_and_compressed_between_two_looks(bench: Workbench) -> None:
    """``delaycompress``: what was first seen as .1 is .2.gz at the next look, and is not read again."""
    first = bench.write("a.log.1", HEADER + b"one\n")
    bench.write("a.log", HEADER + b"two\n")
    bench.run()
    count = len(bench.values())
    _write(bench.logs / "a.log.2.gz", first.read_bytes())
    first.unlink()
    (bench.logs / "a.log").rename(first)
    bench.write("a.log", b"three\n")
    bench.run()
    assert bench.values()[count:] == [b"three"]


@pytest.mark.parametrize("seen", [False, True])
def test_a_copy_takes_over_at_the_look_that_finds_its_original_truncated(bench: Workbench, seen: bool) -> None:
    """Not at the next one, before which it may be gone."""
    path = bench.write("a.log", b"line 1")
    bench.start()
    bench.write("a.log", b"\n")
    copy = path.with_name("a.log.1")
    shutil.copy(path, copy)
    if seen:
        bench.scan()
    os.truncate(path, 0)
    bench.run()
    copy.unlink()
    bench.run()
    assert bench.values() == [b"line 1"]


def test_a_copy_that_is_known_before_its_original_was_seen_to_be_truncated(bench: Workbench) -> None:
    """Truncated, written and copied again between two looks: the second copy is read, and the file waits."""
    path = bench.write("a.log", b"line 1\n")
    bench.start()
    shutil.copy(path, path.with_name("a.log.1"))
    bench.scan()
    os.truncate(path, 0)
    bench.write("a.log", b"line 2 is longer\n")
    path.with_name("a.log.1").rename(path.with_name("a.log.2"))
    shutil.copy(path, path.with_name("a.log.1"))
    bench.run()
    bench.run()
    os.truncate(path, 0)
    bench.run()
    bench.write("a.log", b"line 3\n")
    bench.run()
    bench.run()
    assert sorted(bench.values()) == [b"line 1", b"line 2 is longer", b"line 3"]


def test_a_copy_that_rotation_finished_is_not_told_as_left_out(bench: Workbench) -> None:
    """Copying and truncating takes a few looks. It ends in order, and nothing is left out."""
    path = bench.write("a.log", b"1\n2\n")
    bench.run()
    shutil.copy(path, path.with_name("a.log.1"))
    bench.run()
    bench.pass_time(2)
    bench.run()
    os.truncate(path, 0)
    bench.run()
    bench.pass_time(100)
    bench.run()
    assert (bench.values(), _left_out(bench)) == ([b"1", b"2"], [])
