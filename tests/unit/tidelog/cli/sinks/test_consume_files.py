"""Unit tests of ``tidelog consume`` into files, of where it goes on, of ``tail`` and of ``cat``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.interrupt import Interrupts


@pytest.fixture
def filled(gateway: FakeGateway) -> Any:
    gateway.create("t", 2)
    for partition in range(2):
        gateway.topics["t"].records[partition] = [
            Record(
                "t", partition, offset, 1_700_000_000_000 + offset, b"k", b"%d-%d" % (partition, offset), (("h", b"x"),)
            )
            for offset in range(10)
        ]
    return gateway


def test_a_file_can_be_gone_on_with(filled: FakeGateway, run: Run, tmp_path: Path) -> None:
    """What it says at the end begins the next run, and both together have each record once."""
    path = tmp_path / "t.ndjson"
    first = run("consume", "t", "--output", str(path), "--max", "7")
    assert first.exit_code == 0
    where = re.search(r"^7 records in .* Continue with --from (\S+)$", first.stderr, re.MULTILINE)
    assert where is not None
    second = run("consume", "t", "--output", str(path), "--append", "--from", where.group(1), "--json")
    assert json.loads(second.stdout)["next_offsets"] == [{"partition": 0, "offset": 10}, {"partition": 1, "offset": 10}]
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((record["partition"], record["offset"]) for record in records) == [
        (partition, offset) for partition in range(2) for offset in range(10)
    ]


@pytest.mark.parametrize("name", ["t.ndjson.gz", "t.zst", "t.bz2", "t.parquet.lz4"])
def test_a_name_that_claims_a_compression_is_refused(filled: FakeGateway, run: Run, tmp_path: Path, name: str) -> None:
    """Nothing is compressed: the file would not be what its name says, and ``produce`` would refuse it."""
    refused = run("consume", "t", "--output", tmp_path / name)
    assert refused.exit_code == ExitCode.USAGE
    assert "does not compress" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_are_whole_or_not_there(filled: FakeGateway, run: Run, tmp_path: Path) -> None:
    """What is there is not touched, what fails leaves nothing, and an incomplete line is not hidden by what follows it."""
    path = tmp_path / "t.parquet"
    filled.misbehave("GET .*/records", filled.refuse(500, "CORRUPT_SEGMENT"))
    assert run("consume", "t", "--output", str(path)).exit_code == ExitCode.REFUSED
    assert list(tmp_path.iterdir()) == []
    assert run("consume", "t", "--output", str(path), "-p", "1", "-n", "3").exit_code == 0
    assert pq.read_table(path).column("value").to_pylist() == [b"1-0", b"1-1", b"1-2"]
    before = path.read_bytes()
    assert run("consume", "t", "--output", str(path)).exit_code == ExitCode.FAILED
    assert path.read_bytes() == before
    torn = tmp_path / "t.txt"
    torn.write_text("whole\nhalf")
    assert run("consume", "t", "--output", str(torn), "--append").exit_code == ExitCode.FAILED
    assert torn.read_text() == "whole\nhalf"
    assert run("consume", "t", "--output", str(path), "--append").exit_code == ExitCode.USAGE
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.parquet", "t.txt"]


def test_the_last_few_and_positions(filled: FakeGateway, run: Run) -> None:
    """``--last`` counts in each partition; a partition that ``--from`` does not name is read from its beginning."""
    assert sorted(run("consume", "t", "--last", "2").stdout.split()) == ["0-8", "0-9", "1-8", "1-9"]
    assert len(run("consume", "t", "--last", "99").stdout.split()) == 20
    assert run("consume", "t", "--from", "1:8").stdout.split().count("0-0") == 1
    assert len(run("consume", "t", "--from", "0:9,1:8").stdout.split()) == 3
    for wrong in (("--from", "0:1,0:2"), ("--from", "5:1"), ("--from", "1", "--last", "1"), ("--append",)):
        assert run("consume", "t", *wrong).exit_code == ExitCode.USAGE, wrong


def test_exact_bytes_and_safe_text(gateway: FakeGateway, run: Run) -> None:
    """raw adds nothing but its delimiter; text does not let a record drive the terminal."""
    gateway.create("odd").records[0] = [
        Record("odd", 0, 0, 0, b"k", b"\xff\n", (("h", b"1"),)),
        Record("odd", 0, 1, 0, None, b"\x1b[2J"),
    ]
    assert run("consume", "odd", "-f", "raw", "--delimiter", "").stdout_bytes == b"\xff\n\x1b[2J"
    assert run("consume", "odd", "-f", "raw", "--delimiter", "\\0", "-n", "1").stdout_bytes == b"\xff\n\x00"
    assert run("consume", "odd", "--headers", "-k", "=", "-n", "1").stdout == "h=1\tk=\\xff\n\n"
    assert run("consume", "odd", "--from", "1").stdout == "\\x1b[2J\n"
    assert run("cat", "odd", "0", "0").stdout_bytes == b"\xff\n"
    assert json.loads(run("cat", "odd", "0", "0", "--json").stdout)["value_base64"] == "/wo="
    shown = run("cat", "odd", "0", "0", "--format", "text").stdout
    assert re.search(r"key +k\nheader +h=1\nvalue +\\xff\n", shown)
    assert run("cat", "odd", "0", "2").exit_code == ExitCode.FAILED
    assert run("cat", "odd", "0", "3").exit_code == ExitCode.REFUSED


def test_tail_shows_all_partitions_of_all_topics(filled: FakeGateway, run: Run) -> None:
    """The last of each, then what comes, up to ``--max``; as JSON with the topic. ``-f`` is no error: it follows anyway."""
    filled.create("u").records[0] = [Record("u", 0, 0, 1_700_000_000_000, None, None)]
    lines = run("tail", "t", "u", "--lines", "1", "--max", "3").stdout.splitlines()
    assert sorted(lines) == [
        "t/0@9  2023-11-14T22:13:20.009Z  k  0-9  [h=x]",
        "t/1@9  2023-11-14T22:13:20.009Z  k  1-9  [h=x]",
        "u/0@0  2023-11-14T22:13:20.000Z  -  (null)",
    ]
    assert json.loads(run("tail", "-f", "u", "--max", "1", "--json").stdout)["topic"] == "u"


def test_a_signal_waits_until_what_is_written_is_written() -> None:
    """Inside ``held`` the first signal does nothing until the block is done, the second does not wait."""
    done: list[str] = []

    def write(interrupts: Interrupts, *numbers: int) -> None:
        with interrupts.caught(), interrupts.held():
            for number in numbers:
                os.kill(os.getpid(), number)
            done.append("written")

    with pytest.raises(KeyboardInterrupt):
        write(Interrupts(), signal.SIGINT)
    assert done == ["written"]
    with pytest.raises(KeyboardInterrupt):
        write(Interrupts(), signal.SIGTERM, signal.SIGTERM)
    assert done == ["written"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_of_produce_says_what_is_stored(gateway: FakeGateway, number: int) -> None:
    """What was read is delivered and counted; nothing that it names as stored is not in the log."""
    gateway.create("t")
    process = subprocess.Popen(
        [sys.executable, "-m", "tidelog", "produce", "t", "--json"],
        env={**os.environ, "TIDELOG_URL": gateway.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.flush()
        while gateway.count("POST .*/records") == 0:
            time.sleep(0.02)
            assert process.poll() is None
        process.send_signal(number)
        process.wait(60)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == ExitCode.INTERRUPTED
    said = json.loads(out)
    assert (said["record_count"], said["stored_through"]) == (3, {"file": "-", "line": 3})
    assert gateway.values("t") == [[b"a", b"b", b"c"]]
