"""``tidelog consume``, over the in-process gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.terminal.exit_code import ExitCode


@pytest.fixture
def filled(gateway: FakeGateway) -> Any:
    gateway.create("t", 2)
    for partition in range(2):
        gateway.topics["t"].records[partition] = [
            Record("t", partition, offset, 1_700_000_000_000 + offset, b"k%d" % offset, b"%d-%d" % (partition, offset))
            for offset in range(10)
        ]
    return gateway


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        ("beginning", range(10)),
        ("end", ()),
        ("7", range(7, 10)),
        ("10", ()),
        ("@1700000000004", range(4, 10)),
        ("2023-11-14T22:13:20.008Z", range(8, 10)),
        ("2023-11-14T22:13:20.008", range(8, 10)),
        ("2030-01-01", ()),
    ],
)
def test_where_to_begin(run: Run, filled: FakeGateway, where: str, offsets: Any) -> None:
    """Every way to say where to begin, in each partition, up to what is there; times without a zone are UTC."""
    result = run("consume", "t", "--from", where)
    assert result.exit_code == 0
    assert sorted(result.stdout.split()) == sorted(
        f"{partition}-{offset}" for partition in range(2) for offset in offsets
    )


def test_what_to_read_and_how_to_write_it(run: Run, filled: FakeGateway) -> None:
    """Partitions, a maximum, keys, JSON that can be produced again, and raw bytes."""
    assert run("consume", "t", "-p", "1", "-n", "3").stdout.split() == ["1-0", "1-1", "1-2"]
    assert run("consume", "t", "-p", "1", "-n", "1", "-k", "=").stdout == "k0=1-0\n"
    result = run("consume", "t", "-p", "1", "-n", "1", "--json")
    record = {"partition": 1, "offset": 0, "timestamp": 1700000000000, "key": "k0", "value": "1-0", "headers": []}
    assert json.loads(result.stdout) == record
    filled.create("copy", 2)
    assert run("produce", "copy", "-f", "ndjson", given=result.stdout).exit_code == 0
    assert filled.values("copy")[1] == [b"1-0"]
    filled.create("odd").records[0] = [
        Record("odd", 0, 0, 0, None, b"\xff\n", (("h", b"\xfe"),)),
        Record("odd", 0, 1, 0, None, None),
    ]
    assert run("consume", "odd", "-f", "raw").stdout_bytes == b"\xff\n\n\n"
    assert run("consume", "odd").stdout == "\\xff\n\n\n"
    lines = run("consume", "odd", "-f", "json").stdout.splitlines()
    assert json.loads(lines[0])["value_base64"] == "/wo="
    assert json.loads(lines[0])["headers"] == [{"key": "h", "value_base64": "/g=="}]
    assert json.loads(lines[1])["value"] is None


def test_without_follow_it_ends_at_what_was_there_when_it_began(run: Run, filled: FakeGateway) -> None:
    """A topic that is written meanwhile does not keep it from ending."""

    def grow(exchange: Any) -> None:
        records = filled.topics["t"].records[1]
        records += [Record("t", 1, offset, 0, None, b"late") for offset in range(10, 30)]
        exchange.carry_out()

    filled.misbehave("GET .*/partitions/1/records", grow)
    result = run("consume", "t")
    assert len(filled.topics["t"].records[1]) == 30
    assert len(result.stdout.split()) == 20
    assert "late" not in result.stdout


def test_consume_refuses_what_is_not_there(run: Run, filled: FakeGateway) -> None:
    """An offset beyond the end, an unknown partition, a malformed position."""
    assert run("consume", "t", "--from", "11").exit_code == ExitCode.REFUSED
    assert run("consume", "t", "-p", "5").exit_code == ExitCode.REFUSED
    assert run("consume", "t", "--from", "yesterday").exit_code == ExitCode.USAGE
    assert run("consume", "t", "--json", "-k", ":").exit_code == ExitCode.USAGE
    assert run("consume", "t", "-f", "xml").exit_code == ExitCode.USAGE


def start(*arguments: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", *arguments],
        env={**os.environ, "TIDELOG_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_following_until_ctrl_c(run: Run, filled: FakeGateway) -> None:
    """Records are written as they come; Ctrl-C ends it and says where to go on."""
    process = start("consume", "t", "--from", "end", "--follow", url=filled.url)
    try:
        while filled.count("POST /v1/fetch") == 0:
            time.sleep(0.02)
            assert process.poll() is None
        assert run("produce", "t", "-p", "0", given=b"new\n").exit_code == 0
        assert process.stdout is not None
        assert process.stdout.readline() == b"new\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert (out, error, process.returncode) == (b"", b"1 record. Go on with --from 0:11,1:10\nInterrupted.\n", 130)


def test_a_reader_that_has_enough(filled: FakeGateway) -> None:
    """``tidelog consume … | head -1``: no error."""
    filled.topics["t"].records[0] = [Record("t", 0, offset, 0, None, b"x" * 100) for offset in range(50_000)]
    process = start("consume", "t", "-p", "0", url=filled.url)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()
