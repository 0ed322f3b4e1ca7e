"""Each line once, in order, through every usual way to rotate a file."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest
import zstandard

from tests.support.collect_bench import Workbench

pytestmark = pytest.mark.timeout(60)


def _compress(path: Path, suffix: str) -> None:
    data = path.read_bytes()
    packed = gzip.compress(data) if suffix == ".gz" else zstandard.compress(data)
    path.with_name(path.name + suffix).write_bytes(packed)
    path.unlink()


def test_a_growing_file_is_read_as_it_grows(bench: Workbench) -> None:
    """What is appended between two looks is sent, and nothing before it again; lines carry file and number."""
    path = bench.write("a.log", b"1\n2\n")
    bench.run()
    bench.write("a.log", b"3\n")
    bench.run()
    bench.run()
    assert [(line.value, line.line) for line in bench.topic.lines] == [(b"1", 1), (b"2", 2), (b"3", 3)]
    assert {line.file for line in bench.topic.lines} == {str(path)}
    assert len({line.partition for line in bench.topic.lines}) == 1


def test_renamed_and_created_anew(bench: Workbench) -> None:
    """The old file is read to its end under its first name, also what is written to it after the renaming; then the new one."""
    path = bench.write("a.log", b"1\n")
    bench.run()
    bench.write("a.log", b"2\n")
    path.rename(path.with_name("a.log.1"))
    bench.write("a.log", b"4\n")
    bench.write("a.log.1", b"3\n")
    bench.run()
    assert bench.values() == [b"1", b"2", b"3", b"4"]
    assert {line.file for line in bench.topic.lines} == {str(path)}


@pytest.mark.parametrize("gap", ["running", "killed"])
def test_renamed_out_of_the_pattern(tmp_path: Path, gap: str) -> None:
    """What was not read when the file left the pattern is read where it is now, also by the next process."""
    bench = Workbench(tmp_path, "a.log")
    path = bench.write("a.log", b"1\n")
    bench.run()
    if gap == "killed":
        bench.kill()
    bench.write("a.log", b"2\n")
    path.rename(path.with_name("a.log.1"))
    bench.write("a.log", b"3\n")
    bench.run()
    assert bench.values() == [b"1", b"2", b"3"]


def test_moved_and_compressed_while_no_agent_ran(tmp_path: Path) -> None:
    """The rest of a file is read from its compressed copy, although the pattern does not name that."""
    bench = Workbench(tmp_path, "a.log")
    path = bench.write("a.log", b"line 1\n")
    bench.run()
    bench.kill()
    bench.write("a.log", b"line 2\n")
    rotated = path.rename(path.with_name("a.log.1"))
    _compress(rotated, ".gz")
    bench.write("a.log", b"line 3\n")
    bench.run()
    assert sorted(bench.values()) == [b"line 1", b"line 2", b"line 3"]


@pytest.mark.parametrize("seen", ["seen", "unseen"])
def test_copied_and_truncated(bench: Workbench, seen: str) -> None:
    """The copy is not read again, but for what was written last; the file begins anew."""
    path = bench.write("a.log", b"line 1\nline 2\n")
    bench.run()
    bench.write("a.log", b"line 3\n")
    shutil.copy(path, path.with_name("a.log.1"))
    if seen == "seen":
        bench.run()
    os.truncate(path, 0)
    bench.run()
    bench.write("a.log", b"line 4\n")
    bench.run()
    bench.run()
    assert sorted(bench.values()) == [b"line %d" % number for number in range(1, 5)]


def test_truncated_and_longer_than_before(bench: Workbench) -> None:
    """A file that grew past its old position between two looks is known to be another one by its bytes."""
    path = bench.write("a.log", b"same head\n" * 40 + b"1\n2\n")
    bench.run()
    path.write_bytes(b"same head\n" * 40 + b"3\n4\n5\n")
    bench.run()
    bench.run()
    assert bench.values() == [b"same head"] * 40 + [b"1", b"2"] + [b"same head"] * 40 + [b"3", b"4", b"5"]


def test_truncated_before_anything_was_read(bench: Workbench) -> None:
    """A file of which only the first bytes were seen is known to be another one, too, and its copy is read."""
    path = bench.write("a.log", b"1\n2\n")
    bench.start()
    shutil.copy(path, path.with_name("a.log.1"))
    bench.scan()
    path.write_bytes(b"")
    bench.run()
    bench.run()
    bench.write("a.log", b"3\n")
    bench.run()
    assert sorted(bench.values()) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("read", ["all", "half"])
def test_a_compressed_copy_is_not_read_twice(bench: Workbench, suffix: str, read: str) -> None:
    """What was read before a file was compressed is not read again, what was not is."""
    path = bench.write("a.log", b"line 1\nline 2\n")
    bench.run()
    if read == "half":
        bench.kill()
        bench.write("a.log", b"line 3\n")
    _compress(path, suffix)
    bench.run()
    bench.run()
    expected = [b"line 1", b"line 2"] + ([b"line 3"] if read == "half" else [])
    assert bench.values() == expected


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_are_read_at_the_first_start(bench: Workbench, suffix: str) -> None:
    """From the beginning, with the numbers of their lines, once; also when they are renamed later."""
    path = bench.write("a.log.2", b"1\n2\n")
    _compress(path, suffix)
    bench.run()
    (bench.logs / f"a.log.2{suffix}").rename(bench.logs / f"a.log.3{suffix}")
    bench.run()
    bench.kill()
    bench.run()
    assert [(line.value, line.line) for line in bench.topic.lines] == [(b"1", 1), (b"2", 2)]


def test_a_compressed_file_that_is_still_written(bench: Workbench) -> None:
    """What is there of it is read, and the rest when it has come."""
    data = b"".join(b"%d %s\n" % (number, os.urandom(40).hex().encode()) for number in range(20_000))
    packed = gzip.compress(data)
    bench.write("a.log.gz", packed[: len(packed) // 2])
    bench.run()
    some = len(bench.values())
    assert 0 < some < 20_000
    bench.write("a.log.gz", packed[len(packed) // 2 :])
    bench.run()
    assert bench.values() == data.splitlines()


def test_a_damaged_compressed_file_holds_up_nothing(bench: Workbench) -> None:
    """It is said once, and the other files go on."""
    bench.write("a.log.gz", b"this is no gzip")
    bench.write("b.log", b"1\n")
    bench.run()
    bench.run()
    assert bench.values() == [b"1"]
    assert [event for _, event, fields in bench.journal.told if fields.get("file", "").endswith("a.log.gz")] == [
        "File is damaged: it was read up to the damage"
    ]


def test_deleted_while_open(bench: Workbench) -> None:
    """What was seen is read to its end, though nothing leads to it any more."""
    path = bench.write("a.log", b"1\n2\n")
    bench.start()
    path.unlink()
    bench.send()
    assert bench.values() == [b"1", b"2"]


def test_an_inode_that_is_used_again(bench: Workbench) -> None:
    """Another file with the inode of one that was read is another file."""
    path = bench.write("a.log", b"the old file\n")
    bench.run()
    bench.kill()
    # The same inode for certain, where a file system may or may not give it out again.
    path.write_bytes(b"the new file, longer than the old one\n")
    path.rename(path.with_name("b.log"))
    bench.run()
    bench.run()
    assert bench.values() == [b"the old file", b"the new file, longer than the old one"]


@pytest.mark.parametrize("live", ["b.log", "b.log.zst"])
def test_the_inode_of_a_compressed_file_that_is_used_again(bench: Workbench, live: str) -> None:
    """A log on the inode of a compressed one, deleted while no agent ran, is read for what it is, not decompressed."""
    old = bench.logs / "a.log.1.gz"
    old.write_bytes(gzip.compress(b"line 1\n"))
    bench.run()
    bench.kill()
    old.write_bytes(zstandard.compress(b"line 2\n") if live.endswith(".zst") else b"line 2\n")
    old.rename(bench.logs / live)
    bench.run()
    bench.run()
    assert bench.values() == [b"line 1", b"line 2"]


def test_the_inode_of_a_damaged_file_that_is_used_again(bench: Workbench) -> None:
    """A log on the inode of a file that could not be read, and was deleted, is read without a new start."""
    damaged = bench.logs / "a.log.1.gz"
    damaged.write_bytes(gzip.compress(b"line 1\n" * 100) + b"no gzip")
    bench.run()
    damaged.write_bytes(b"line 2\n")
    damaged.rename(bench.logs / "b.log")
    bench.run()
    bench.run()
    assert bench.values()[-1:] == [b"line 2"]


def test_an_inode_and_a_size_that_are_used_again(bench: Workbench) -> None:
    """A new file on the inode of one that is long gone is read, also when it is as long as that was."""
    old = bench.write("a.log", b"line 1\n")
    bench.run()
    away = old.rename(bench.directory / "away")
    bench.pass_time(1.0)
    bench.run()
    bench.pass_time(400.0)
    bench.run()
    away.write_bytes(b"line 2\n")
    away.rename(bench.logs / "b.log")
    bench.run()
    bench.run()
    assert bench.values() == [b"line 1", b"line 2"]


def test_an_inode_that_is_used_again_outside_of_the_patterns(tmp_path: Path) -> None:
    """A file that no pattern names is not read, although it lies beside a log and has the inode of one that is gone."""
    bench = Workbench(tmp_path, "*.log")
    old = bench.write("a.log", b"line 1\n")
    bench.run()
    bench.kill()
    old.write_bytes(b"a password\n")
    old.rename(bench.logs / "passwords")
    bench.run()
    bench.run()
    assert bench.values() == [b"line 1"]


def test_links(tmp_path: Path) -> None:
    """With --follow-links a file with several names is read once; a link that leads elsewhere later is followed there."""
    bench = Workbench(tmp_path, follow_links=True)
    (bench.directory / "data").mkdir()
    first, second = bench.directory / "data" / "1", bench.directory / "data" / "2"
    first.write_bytes(b"1\n")
    second.write_bytes(b"2\n")
    link = bench.logs / "current.log"
    link.symlink_to(first)
    (bench.logs / "other.log").symlink_to(first)
    (bench.logs / "nowhere.log").symlink_to(bench.directory / "nothing")
    bench.run()
    link.unlink()
    link.symlink_to(second)
    bench.run()
    assert bench.values() == [b"1", b"2"]


def test_two_files_that_begin_alike_are_two_files(bench: Workbench) -> None:
    """A file is no copy for beginning like another one whose name it could have been made of, once they differ."""
    bench.write("app.log", b"Starting\none\n")
    bench.run()
    bench.write("app-2.log", b"Starting\ntwo\n")
    bench.run()
    assert bench.values() == [b"Starting", b"one", b"Starting", b"two"]


def test_a_new_file_that_begins_as_the_old_one_did(bench: Workbench) -> None:
    """Under the name of the old one a file is never taken for its copy."""
    path = bench.write("a.log", b"Starting\nold\n")
    bench.run()
    path.rename(path.with_name("elsewhere"))
    bench.write("a.log", b"Starting\n")
    bench.run()
    assert bench.values() == [b"Starting", b"old", b"Starting"]


def test_from_the_end(tmp_path: Path) -> None:
    """What is there at the first start is skipped, but for a line that has no end yet; what comes later is not."""
    bench = Workbench(tmp_path, from_end=True)
    bench.write("a.log", b"1\n2\nthr")
    bench.run()
    bench.write("a.log", b"ee\n")
    bench.write("b.log", b"new\n")
    bench.run()
    assert sorted((line.value, line.line) for line in bench.topic.lines) == [(b"new", 1), (b"three", 3)]
    bench.kill()
    bench.write("c.log", b"later\n")
    bench.run()
    assert sorted(bench.values()) == [b"later", b"new", b"three"]


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    """What is closed to keep the bound is opened again when it grows."""
    bench = Workbench(tmp_path, open_files_max=3)
    for turn in range(3):
        for number in range(10):
            bench.write(f"{number}.log", b"%d\n" % turn)
        bench.run()
        bench.run()
        assert bench.collector.open_count() == (10, 3)
    assert sorted(bench.values()) == sorted([b"0", b"1", b"2"] * 10)


def test_renamed_while_it_was_closed(tmp_path: Path) -> None:
    """A file that could not be found under its old name at the moment of reading is read under its new one."""
    bench = Workbench(tmp_path, open_files_max=0)
    path = bench.write("a.log", b"1\n")
    bench.run()
    bench.scan()
    bench.write("a.log", b"2\n")
    bench.scan()
    path.rename(path.with_name("a.log.1"))
    bench.send()
    assert "File can't be read" in [event for _, event, _ in bench.journal.told]
    assert bench.values() == [b"1"]
    bench.run()
    assert bench.values() == [b"1", b"2"]


def test_what_is_gone_is_closed_and_forgotten_in_time(bench: Workbench) -> None:
    """A deleted file is not held open for ever, and its entry leaves the state after a week."""
    path = bench.write("a.log", b"1\n")
    bench.run()
    path.unlink()
    bench.run()
    assert bench.collector.open_count() == (1, 1)
    bench.pass_time(400)
    bench.run()
    assert bench.collector.open_count() == (1, 0)
    bench.pass_time(8 * 86_400)
    bench.run()
    assert bench.collector.open_count() == (0, 0)
