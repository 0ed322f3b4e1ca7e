"""``tidelog collect`` as it is typed, over the in-process gateway."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.terminal.exit_code import ExitCode

PATIENCE_S = 60


@pytest.fixture
def once(run: Run, tmp_path: Path) -> Run:
    """``collect`` with ``--once``, of the logs in the test's directory."""
    return partial(run, "collect", tmp_path / "*.log", "-t", "logs", "--state", tmp_path / "agent.state", "--once")


@contextlib.contextmanager
def agent(url: str, tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One that follows, its events on ``stderr``."""
    pattern, state = str(tmp_path / "*.log"), str(tmp_path / "agent.state")
    command = [sys.executable, "-m", "tidelog", "collect", pattern, "-t", "logs", "--state", state, "--url", url]
    with subprocess.Popen([*command, *arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _event(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    assert process.stderr is not None
    for line in process.stderr:
        if name in line:
            event: dict[str, Any] = json.loads(line)
            return event
    pytest.fail(f"{name!r} was not told")


def test_once_sends_what_is_there_and_no_more(once: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """A second run sends what came since; headers name file and line, the key is what the pattern found."""
    gateway.create("logs", 2)
    (tmp_path / "a.log").write_bytes(b"user=ada 1\n")
    assert once("--key-regex", r"user=(\w+)").exit_code == 0
    with (tmp_path / "a.log").open("ab") as log:
        log.write(b"user=ada 2\n")
    second = once("--key-regex", r"user=(\w+)")
    assert second.exit_code == 0
    [records] = [records for records in gateway.topics["logs"].records if records]
    assert [(record.key, record.value) for record in records] == [(b"ada", b"user=ada 1"), (b"ada", b"user=ada 2")]
    assert records[1].headers == (("file", str(tmp_path / "a.log").encode()), ("line", b"2"))
    assert json.loads(second.stderr.splitlines()[-1])["records"] == 1


def test_once_tells_what_it_leaves_out(once: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """A copy by name and bytes is named and counted at the end; files whose names rotation does not give are read."""
    topic = gateway.create("logs")
    for name in ("a.log", "a.1.log", *(f"f{number}.log" for number in range(20))):
        (tmp_path / name).write_bytes(b"same\n")
    ended = once()
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert ended.exit_code == 0
    assert sum(map(len, topic.records)) == 21
    told = [event["file"] for event in events if event["event"].startswith("File is skipped")]
    assert (told, events[-1]["left_out_files"]) == ([str(tmp_path / "a.1.log")], 1)


@pytest.mark.parametrize("fault", ["damaged", "cut off"])
def test_once_fails_where_a_file_could_not_be_read_to_its_end(
    once: Run, gateway: FakeGateway, tmp_path: Path, fault: str
) -> None:
    """The lines up to there are stored, the end is told, and the exit code says that something is missing; at each run."""
    topic = gateway.create("logs")
    packed = gzip.compress(b"".join(b"%d\n" % number for number in range(1_000)))
    (tmp_path / "a.log").write_bytes(b"other\n")
    (tmp_path / "b.log.gz").write_bytes(packed + b"no gzip" if fault == "damaged" else packed[: len(packed) - 20])
    for _ in range(2):
        ended = once("--unfinished-after", "0s", tmp_path / "b.log.gz")
        assert ended.exit_code == ExitCode.FAILED
        assert "not everything was sent: files that can't be read completely: 1" in ended.stderr
        [summary] = [json.loads(line) for line in ended.stderr.splitlines() if '"Ended"' in line]
        assert summary["unread_files"] == 1
        assert (summary["lost_bytes"] > 0) == (fault == "damaged")
        assert str(tmp_path / "b.log.gz") in ended.stderr
    values = [record.value for records in topic.records for record in records]
    assert len(values) > 900
    assert values.count(b"0") == values.count(b"other") == 1


def test_what_is_wrong_is_said(once: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """A wrong pattern, one that matches nothing, a topic that is not there, a damaged state: each has its words."""
    assert once("--key-regex", "(").exit_code == ExitCode.USAGE
    missing = once()
    assert missing.exit_code == ExitCode.REFUSED
    assert "UNKNOWN_TOPIC" in missing.stderr
    gateway.create("logs")
    nothing = once()
    assert nothing.exit_code == 0
    assert "No file matches the patterns" in nothing.stderr
    (tmp_path / "agent.state").write_bytes(b"no state")
    damaged = once()
    assert damaged.exit_code == ExitCode.FAILED
    assert "is damaged" in damaged.stderr


def test_a_signal_ends_it_in_order(gateway: FakeGateway, tmp_path: Path) -> None:
    """It follows a file, serves its metrics, and on SIGTERM writes down where it is and exits with 0."""
    topic = gateway.create("logs")
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    with agent(gateway.url, tmp_path, "--metrics-port", "0") as process:
        metrics = _event(process, "Metrics are served")["url"]
        _event(process, "Started")
        with log.open("ab") as file:
            file.write(b"2\n")
        deadline = time.monotonic() + PATIENCE_S
        text = ""
        # The topic has a record before the agent has its answer, and counts it.
        while "tidelog_collect_records_total 2.0" not in text and time.monotonic() < deadline:
            time.sleep(0.02)
            with urllib.request.urlopen(metrics, timeout=PATIENCE_S) as answer:
                text = answer.read().decode()
        process.send_signal(signal.SIGTERM)
        ended = _event(process, "Ended")
        assert process.wait(PATIENCE_S) == 0
    assert ended["records"] == 2
    assert sum(map(len, topic.records)) == 2
    assert re.search(r"^tidelog_collect_records_total 2\.0$", text, re.MULTILINE)
    assert b'"offset":4' in (tmp_path / "agent.state").read_bytes()


def test_without_a_gateway_it_waits_and_can_be_stopped(dead_url: str, tmp_path: Path) -> None:
    """It says once that no gateway answers, goes on trying, and leaves at once when it is told to."""
    with agent(dead_url, tmp_path) as process:
        assert _event(process, "No gateway accepts requests")["level"] == "warning"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
