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
from tidelog.cli.sinks.template import template_writer
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
        ("earliest", range(10)),
        ("end", ()),
        ("latest", ()),
        ("-3", range(7, 10)),
        ("1h", ()),
        ("100000d", range(10)),
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


@pytest.mark.parametrize(
    ("until", "offsets"),
    [
        ("latest", range(2, 10)),
        ("-3", range(2, 7)),
        ("7", range(2, 7)),
        ("99", range(2, 10)),
        ("@1700000000004", range(2, 4)),
        ("1h", range(2, 10)),
        ("earliest", ()),
        ("1", ()),
    ],
)
def test_where_to_end(run: Run, filled: FakeGateway, until: str, offsets: Any) -> None:
    """An end is said as a beginning is, and records at it and behind it are left; the summary names where to go on."""
    result = run("consume", "t", "--from", "2", "--until", until, "-p", "1")
    assert result.stdout.split() == [f"1-{offset}" for offset in offsets]
    assert result.stderr.endswith(f"Continue with --from 1:{2 + len(offsets)}\n")
    assert run("consume", "t", "--from", "2", "--to", until, "-p", "1").stdout == result.stdout


def test_an_end_is_not_for_what_has_another(run: Run, filled: FakeGateway) -> None:
    """A group ends where it is, and following never; a word that says nothing is named with its option."""
    for other in (["--follow"], ["--group", "g"]):
        assert run("consume", "t", "--until", "5", *other).exit_code == ExitCode.USAGE
    result = run("consume", "t", "--until", "soon")
    assert (result.exit_code, "--until 'soon'" in result.stderr) == (ExitCode.USAGE, True)


def test_a_template_says_all_that_is_written(run: Run, filled: FakeGateway) -> None:
    """kcat's fields and escapes, nothing else: no line break that is not in it; bytes go to a pipe as they are."""
    filled.create("odd").records[0] = [
        Record("odd", 0, 0, 1_700_000_000_000, b"k", b"\x1b\xff", (("a", b"1"), ("b", None))),
        Record("odd", 0, 1, 1_700_000_000_001, None, None),
    ]
    template = r"%t %p %o %T %k %K %v %s %S %h %%\t\x41\\\n"
    first = b"odd 0 0 1700000000000 k 1 \x1b\xff \x1b\xff 2 a=1,b= %\tA\\\n"
    second = b"odd 0 1 1700000000001  -1   -1  %\tA\\\n"
    assert run("consume", "odd", "--format", template).stdout_bytes == first + second
    assert run("consume", "odd", "-f", "%o,").stdout == "0,1,"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["-f", "%q"], "%q is not a field"),
        (["-f", "xml"], "nor a template"),
        (["-f", "%v", "--headers"], "a template excludes"),
    ],
)
def test_a_template_that_says_nothing(run: Run, filled: FakeGateway, given: list[str], said: str) -> None:
    """An unknown field, a format that is none, and options that a template has a field for."""
    result = run("consume", "t", *given)
    assert (result.exit_code, said in result.stderr) == (ExitCode.USAGE, True), result.stderr


def test_a_template_escapes_for_a_terminal() -> None:
    """Keys, values and headers come from any producer: a terminal must not act upon them."""
    record = Record("t", 0, 0, 0, b"\x1b[2J", b"\x9b1m", (("h\x1b", b"\x1b"),))
    shown = template_writer("%k %v %h\x1b", for_terminal=True)(record)
    assert shown.count(b"\x1b") == 1
    assert b"\x9b" not in shown


def test_only_what_passes_a_filter(run: Run, filled: FakeGateway) -> None:
    """By headers and by key; it ends at what was there though the last records are left out, and says where to go on."""
    filled.topics["t"].records[0] = [
        Record("t", 0, offset, 0, b"k%d" % offset, b"%d" % offset, (("n", b"%d" % (offset % 3)), ("h", b"x")))
        for offset in range(10)
    ]
    began = time.monotonic()
    result = run("consume", "t", "--filter", "n=2", "--filter", "h=*")
    assert result.stdout.split() == ["2", "5", "8"]
    assert "--from 0:10,1:10" in result.stderr
    assert time.monotonic() - began < 5
    assert run("consume", "t", "--key", "k3", "-p", "1").stdout.split() == ["1-3"]
    assert run("consume", "t", "--filter", "n=1", "-n", "1").stdout.split() == ["1"]
    assert run("consume", "t", "--filter", "n=none", "--group", "g").stdout == ""
    assert filled.groups["g"].offsets == {("t", 0): 10, ("t", 1): 10}
    wrong = run("consume", "t", "--filter", "n")
    assert (wrong.exit_code, "NAME=VALUE" in wrong.stderr) == (ExitCode.USAGE, True)


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
    assert (out, error, process.returncode) == (b"", b"1 record. Continue with --from 0:11,1:10\nInterrupted.\n", 130)


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
