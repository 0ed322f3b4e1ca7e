"""``tidelog produce`` of compressed input: what was compressed is sent, by the name and by the first bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tests.support.packed import PACKERS
from tidelog.cli.sources.unpacked import unpacked
from tidelog.cli.terminal.exit_code import ExitCode

LINES = [b'{"value": "%d"}' % number for number in range(5_000)]
MANY = [b"%d %s" % (number, random.Random(number).randbytes(30).hex().encode()) for number in range(20_000)]
every_compression = pytest.mark.parametrize("suffix", PACKERS)


@every_compression
def test_the_name_says_what_is_inside(run: Run, gateway: FakeGateway, tmp_path: Path, suffix: str) -> None:
    """The suffix of compression is taken off, and the one before it is the format."""
    gateway.create("t")
    path = tmp_path / f"x.ndjson{suffix}"
    path.write_bytes(PACKERS[suffix](b"\n".join(LINES)))
    assert run("produce", "t", path).exit_code == 0
    assert gateway.values("t") == [[b"%d" % number for number in range(5_000)]]


@every_compression
def test_the_first_bytes_say_what_has_no_name(run: Run, gateway: FakeGateway, tmp_path: Path, suffix: str) -> None:
    """Standard input, and a file under any name; two of them in one run."""
    gateway.create("t")
    packed = PACKERS[suffix](b"1\n2\n")
    assert run("produce", "t", given=packed).exit_code == 0
    (tmp_path / "x").write_bytes(packed + packed)
    (tmp_path / "y").write_bytes(b"BZh text\n")
    assert run("produce", "t", tmp_path / "x", tmp_path / "y").exit_code == 0
    assert gateway.values("t") == [[b"1", b"2", b"1", b"2", b"1", b"2", b"BZh text"]]


@every_compression
@pytest.mark.parametrize("fault", ["damaged", "cut off"])
def test_what_is_before_the_damage_is_sent(
    run: Run, gateway: FakeGateway, tmp_path: Path, suffix: str, fault: str
) -> None:
    """Whole lines only; the message names the file, and the exit code is not 0."""
    gateway.create("t")
    packed = PACKERS[suffix](b"\n".join(MANY))
    path = tmp_path / f"x.log{suffix}"
    path.write_bytes(packed + b"damaged" * 10 if fault == "damaged" else packed[: len(packed) // 2])
    result = run("produce", "t", path)
    assert result.exit_code == ExitCode.FAILED
    assert str(path) in result.stderr
    assert ("is damaged" if fault == "damaged" else "ends in the middle") in result.stderr
    [values] = gateway.values("t")
    assert values == MANY[: len(values)]
    assert len(values) > (19_900 if fault == "damaged" else 1_000)


def test_a_name_that_is_wrong_is_refused(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """Text under a compressed file's name, and Parquet inside one; an empty file is empty."""
    gateway.create("t")
    for name, word in [("x.gz", "is not gzip"), ("x.parquet.gz", "decompress it first")]:
        (tmp_path / name).write_bytes(b"text\n")
        result = run("produce", "t", tmp_path / name)
        assert result.exit_code == ExitCode.FAILED
        assert word in result.stderr
    (tmp_path / "empty.gz").write_bytes(b"")
    assert run("produce", "t", tmp_path / "empty.gz").exit_code == 0
    assert gateway.values("t") == [[]]


@every_compression
def test_first_bytes_that_come_one_by_one(suffix: str) -> None:
    """A pipe may give a byte at a time; text is passed on as soon as it is none."""
    packed = PACKERS[suffix](b"1\n2\n")
    ones = (packed[index : index + 1] for index in range(len(packed)))
    assert b"".join(unpacked(Path("-"), "standard input", ones)) == b"1\n2\n"
    passed = unpacked(Path("-"), "standard input", iter([packed[:1], b"x"]))
    assert next(passed) == packed[:1] + b"x"
