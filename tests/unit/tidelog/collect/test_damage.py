"""What is in a damaged or cut off file up to there is sent; that the rest is not, is told and counted."""

from __future__ import annotations

import random

import pytest

from tests.support.collect_bench import Workbench
from tests.support.packed import PACKERS

pytestmark = pytest.mark.timeout(60)
LINES = [b"%d %s" % (number, random.Random(number).randbytes(30).hex().encode()) for number in range(20_000)]


@pytest.mark.parametrize("suffix", PACKERS)
def test_every_compression_is_read(bench: Workbench, suffix: str) -> None:
    """By the name's suffix; a compressed copy is no new file."""
    data = b"\n".join(LINES) + b"\n"
    path = bench.write("a.log", data)
    bench.run()
    path.unlink()
    bench.write(f"a.log.1{suffix}", PACKERS[suffix](data))
    bench.write(f"b.log{suffix}", PACKERS[suffix](b"other\n"))
    bench.run()
    assert bench.values() == [*LINES, b"other"]
    assert bench.collector.unread_files(ended=True) == 0


@pytest.mark.parametrize("suffix", PACKERS)
def test_lines_up_to_the_damage_are_sent(bench: Workbench, suffix: str) -> None:
    """The damage is an error with its place, bytes are counted, and other files go on."""
    lost: list[int] = []
    bench.lose = lost.append
    whole = PACKERS[suffix](b"\n".join(LINES) + b"\n")
    path = bench.write(f"a.log{suffix}", whole + b"damaged" * 10)
    bench.write("b.log", b"other\n")
    bench.run()
    bench.pass_time()
    bench.run()
    bench.run()
    values = [line.value for line in bench.topic.lines if line.file == str(path) and line.part is None]
    assert values == LINES[: len(values)]
    assert len(values) >= len(LINES) - (0 if suffix != ".lz4" else 20)
    assert b"other" in bench.values()
    [(event, fields)] = [(event, fields) for _, event, fields in bench.journal.told if event in bench.journal.errors()]
    assert event == "File is damaged: it was read up to the damage"
    assert fields["file"] == str(path)
    assert lost == [fields["lost_bytes"]]
    assert 70 <= lost[0] <= len(whole) + 70
    assert bench.collector.unread_files(ended=False) == 1


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_stream_that_ends_too_early_is_told_when_it_stays_so(bench: Workbench, suffix: str) -> None:
    """It may be written still; after a minute, or at the end of a run that looks once, it is an error, once."""
    packed = PACKERS[suffix](b"\n".join(LINES) + b"\n")
    bench.write(f"a.log{suffix}", packed[: len(packed) // 2])
    bench.run()
    bench.pass_time()
    bench.run()
    count = len(bench.values())
    assert bench.values()[:-1] == LINES[: count - 1]
    assert count > 1_000
    assert bench.collector.unread_files(ended=False) == 0
    for _ in range(2):
        bench.pass_time(70)
        bench.run()
    assert bench.journal.errors() == ["File ends in the middle of its compressed stream: it was read up to there"]
    bench.write(f"a.log{suffix}", packed[len(packed) // 2 :])
    bench.run()
    bench.run()
    assert b"".join(line.value for line in bench.topic.lines) == b"".join(LINES)
    assert bench.collector.unread_files(ended=True) == 0


def test_a_file_that_is_read_after_all_is_not_unread(bench: Workbench) -> None:
    """What could not be opened for a moment is no longer counted once it was read."""
    path = bench.logs / "a.log"
    path.symlink_to(bench.directory / "nothing")
    bench.start()
    bench.follower.unread.report(str(path), "there is nothing")
    assert bench.collector.unread_files(ended=True) == 1
    path.unlink()
    bench.write("a.log", b"1\n")
    bench.run()
    assert bench.collector.unread_files(ended=True) == 0
