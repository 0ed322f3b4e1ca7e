"""Unit tests of the commands in ``tidelog.cli``, over the in-process gateway."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from log_format.errors import ErrorCode, TidelogError
from log_format.version import __version__
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.app import app
from tidelog.cli.terminal.exit_code import ExitCode, exit_code_for
from tidelog.errors import BackOff, DeliveryTimeout, GatewayUnreachable, OutcomeUnknown, UnknownTopic
from tidelog.limits import REQUEST_TARGET_BYTES


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a wide terminal without colours, whatever started the tests."""
    monkeypatch.setenv("TIDELOG_CONFIG", os.devnull)
    for name in ("TIDELOG_URL", "TIDELOG_STORE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


def run(*arguments: str, url: str | None = None, given: bytes | str | None = None) -> Any:
    environment = {} if url is None else {"TIDELOG_URL": url}
    result = CliRunner().invoke(app, list(arguments), input=given, env=environment)
    assert "Traceback" not in result.output
    return result


def every_command() -> list[tuple[str, ...]]:
    def below(command: Any, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        commands = getattr(command, "commands", None)
        if commands is None:
            return [path]
        return [found for name, each in commands.items() for found in below(each, (*path, name))]

    return below(typer.main.get_command(app), ())


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_every_command_explains_itself(command: tuple[str, ...]) -> None:
    """The help text is enough: what it does, every option in words, and (but for the demo) an example."""
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert command == ("demo",) or f"tidelog {' '.join(command)}" in result.stdout
    node: Any = typer.main.get_command(app)
    for name in command:
        node = node.commands[name]
    for parameter in node.params:
        assert parameter.help, parameter.name


def test_topics_from_creation_to_deletion(gateway: FakeGateway) -> None:
    """Each command does its call and reports the result, to the user and, with ``--json``, to programs."""
    assert run("topic", "create", "orders", "-p", "2", "-c", "retention.ms=5", url=gateway.url).exit_code == 0
    assert gateway.topics["orders"].config == {"retention.ms": "5"}
    gateway.topics["orders"].records[0].append(Record("orders", 0, 0, 0, None, b"x"))
    again = run("topic", "create", "orders", "-p", "2", "-c", "retention.ms=5", url=gateway.url)
    assert again.exit_code == ExitCode.REFUSED
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    again = run(
        "topic", "create", "orders", "-p", "2", "-c", "retention.ms=5", "--if-not-exists", "--json", url=gateway.url
    )
    assert json.loads(again.stdout)["partition_count"] == 2
    listed = run("topic", "list", url=gateway.url)
    assert re.search(r"orders +2 +1 +20\n", listed.stdout)
    listed = run("topic", "list", "--json", "--prefix", "o", url=gateway.url)
    assert [topic["name"] for topic in json.loads(listed.stdout)["topics"]] == ["orders"]
    shown = run("topic", "describe", "orders", url=gateway.url)
    assert "memory:///topics/orders" in shown.stdout
    assert re.search(r"retention.ms +5", shown.stdout)
    altered = run("topic", "alter", "orders", "-p", "3", "--reset-config", "retention.ms", "--json", url=gateway.url)
    assert json.loads(altered.stdout)["config"]["retention.ms"] == 604800000
    assert run("topic", "alter", "orders", url=gateway.url).exit_code == ExitCode.USAGE
    cut = run("topic", "delete-records", "orders", "--before", "0:end", "--before", "1:0", "--json", url=gateway.url)
    assert json.loads(cut.stdout)["partitions"][0] == {"partition": 0, "log_start_offset": 1}
    assert run("topic", "delete-records", "orders", "--before", "0", url=gateway.url).exit_code == ExitCode.USAGE
    assert run("topic", "delete", "orders", url=gateway.url).exit_code == 0
    assert run("topic", "delete", "orders", url=gateway.url).exit_code == ExitCode.REFUSED
    assert run("topic", "delete", "orders", "--if-exists", url=gateway.url).exit_code == 0
    assert "no topics" in run("topic", "list", url=gateway.url).stderr


def test_places_are_named_behind_the_sentence(gateway: FakeGateway) -> None:
    """Each where it is; what is wrong with the whole request was said by the sentence."""
    errors = [{"where": "", "what": "all of it"}, {"where": "/config/a", "what": "is not a setting"}]
    gateway.misbehave("POST", gateway.refuse(400, "INVALID_CONFIG", errors=errors))
    lines = run("topic", "create", "t", url=gateway.url).stderr.splitlines()
    assert [line for line in lines if "request id" not in line][1:] == ["  --config a: is not a setting"]


def test_errors_and_their_exit_codes(gateway: FakeGateway, dead_url: str) -> None:
    """The user gets a sentence on standard error, programs the contract's fields there; results are never mixed with them."""
    result = run("topic", "describe", "nope", "--json", url=gateway.url)
    assert result.exit_code == ExitCode.REFUSED
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert (error["error_code"], error["status"], error["may_have_happened"]) == ("UNKNOWN_TOPIC", 404, False)
    assert error["request_id"]
    result = run("topic", "list", "--url", dead_url, "--timeout", "0.2")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "tidelog serve" in result.stderr
    gateway.create("t")
    gateway.misbehave("DELETE", gateway.lose(done=True))
    result = run("topic", "delete", "t", url=gateway.url)
    assert result.exit_code == ExitCode.OUTCOME_UNKNOWN
    assert "may have happened" in result.stderr
    assert run("topic", "list", "--url", "ftp://x").exit_code == ExitCode.USAGE
    assert run("topic", "create", "t", "-c", "x", url=gateway.url).exit_code == ExitCode.USAGE
    assert run("topic", "create", "t", "-p", "0", url=gateway.url).exit_code == ExitCode.USAGE
    assert run("nonsense").exit_code == ExitCode.USAGE


def test_exit_codes_follow_the_cause() -> None:
    """Also when the producer wrapped it."""
    timeout = DeliveryTimeout("late")
    assert exit_code_for(timeout) is ExitCode.REFUSED
    timeout.__cause__ = GatewayUnreachable("gone")
    assert exit_code_for(timeout) is ExitCode.UNREACHABLE
    assert exit_code_for(BackOff("later")) is ExitCode.REFUSED
    assert exit_code_for(UnknownTopic("no")) is ExitCode.REFUSED
    assert exit_code_for(OutcomeUnknown("perhaps")) is ExitCode.OUTCOME_UNKNOWN
    assert exit_code_for(TidelogError("inside", code=ErrorCode.INTERNAL)) is ExitCode.OUTCOME_UNKNOWN


def test_lines_become_records_byte_for_byte(gateway: FakeGateway, tmp_path: Path) -> None:
    """Each line is a value: also an empty one, one that is no UTF-8, and a last one without a line break."""
    gateway.create("t")
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\n\n\xff\xfe\r\n")
    second.write_bytes(b"last")
    result = run("produce", "t", str(first), str(second), "-H", "from=test", "--json", url=gateway.url)
    assert result.exit_code == 0
    assert gateway.values("t") == [[b"a", b"", b"\xff\xfe\r", b"last"]]
    assert gateway.topics["t"].records[0][0].headers == (("from", b"test"),)
    said = json.loads(result.stdout)
    assert (said["record_count"], said["failed_count"]) == (4, 0)
    assert said["partitions"] == [{"partition": 0, "base_offset": 0, "last_offset": 3, "count": 4}]
    assert result.stderr == ""


def test_keys_and_partitions_of_lines(gateway: FakeGateway) -> None:
    """The key ends at the first separator; a line without one stops the command, and what was before it is stored."""
    gateway.create("t", 3)
    given = b"k1:v:1\nk2:v2\n"
    assert (
        run("produce", "t", "-k", ":", "-p", "2", "--compression", "zstd", url=gateway.url, given=given).exit_code == 0
    )
    assert [(record.key, record.value) for record in gateway.topics["t"].records[2]] == [
        (b"k1", b"v:1"),
        (b"k2", b"v2"),
    ]
    result = run("produce", "t", "-k", ":", "-p", "0", url=gateway.url, given=b"a:1\nnone\n")
    assert result.exit_code == ExitCode.FAILED
    assert "line 2" in result.stderr
    assert gateway.values("t")[0] == [b"1"]
    assert "1 record stored" in result.stderr


def test_ndjson_goes_as_it_is_and_errors_name_the_line_of_the_input(gateway: FakeGateway, tmp_path: Path) -> None:
    """The gateway decides what a record is; however the input is cut into requests, a bad line has its own number."""
    gateway.create("t", 2)
    long = "x" * (REQUEST_TARGET_BYTES // 10)
    lines = [json.dumps({"partition": number % 2, "key": long, "value": {"n": number}}) for number in range(20)]
    good = tmp_path / "good"
    good.write_text("\n".join(lines))
    result = run("produce", "t", str(good), "-f", "ndjson", "--json", url=gateway.url)
    assert json.loads(result.stdout)["record_count"] == 20
    assert gateway.values("t")[1] == [b'{"n":%d}' % number for number in range(1, 20, 2)]
    assert gateway.count("POST .*/records") > 2
    lines[12] = '{"value": '
    bad = tmp_path / "bad"
    bad.write_text("\n".join(lines))
    result = run("produce", "t", str(bad), "-f", "ndjson", url=gateway.url)
    assert result.exit_code == ExitCode.REFUSED
    assert "line 13: " in result.stderr
    stored = sum(map(len, gateway.values("t"))) - 20
    assert f"{stored} records stored" in result.stderr
    assert 0 < stored <= 12
    assert run("produce", "t", "-f", "ndjson", "-k", ":", url=gateway.url, given=b"").exit_code == ExitCode.USAGE


def test_produce_says_what_did_not_arrive(gateway: FakeGateway, dead_url: str, tmp_path: Path) -> None:
    """An unknown topic, no gateway, no file, a lost answer: each with its exit code and how much was stored."""
    assert run("produce", "nope", url=gateway.url, given=b"x\n").exit_code == ExitCode.REFUSED
    result = run("produce", "t", "--url", dead_url, "--timeout", "0.3", given=b"x\n")
    assert result.exit_code == ExitCode.UNREACHABLE
    assert "0 records stored" in result.stderr
    assert "1 more were sent and not acknowledged" in result.stderr
    assert run("produce", "t", str(tmp_path / "none"), url=gateway.url).exit_code == ExitCode.FAILED
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.lose(done=True))
    result = run("produce", "t", "-f", "ndjson", url=gateway.url, given=b'{"value": "x"}\n')
    assert result.exit_code == ExitCode.OUTCOME_UNKNOWN


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
def test_where_to_begin(filled: FakeGateway, where: str, offsets: Any) -> None:
    """Every way to say where to begin, in each partition, up to what is there; times without a zone are UTC."""
    result = run("consume", "t", "--from", where, url=filled.url)
    assert result.exit_code == 0
    assert sorted(result.stdout.split()) == sorted(
        f"{partition}-{offset}" for partition in range(2) for offset in offsets
    )


def test_what_to_read_and_how_to_write_it(filled: FakeGateway) -> None:
    """Partitions, a maximum, keys, JSON that can be produced again, and raw bytes."""
    assert run("consume", "t", "-p", "1", "-n", "3", url=filled.url).stdout.split() == ["1-0", "1-1", "1-2"]
    assert run("consume", "t", "-p", "1", "-n", "1", "-k", "=", url=filled.url).stdout == "k0=1-0\n"
    result = run("consume", "t", "-p", "1", "-n", "1", "--json", url=filled.url)
    record = {"partition": 1, "offset": 0, "timestamp": 1700000000000, "key": "k0", "value": "1-0", "headers": []}
    assert json.loads(result.stdout) == record
    filled.create("copy", 2)
    assert run("produce", "copy", "-f", "ndjson", url=filled.url, given=result.stdout).exit_code == 0
    assert filled.values("copy")[1] == [b"1-0"]
    filled.create("odd").records[0] = [
        Record("odd", 0, 0, 0, None, b"\xff\n", (("h", b"\xfe"),)),
        Record("odd", 0, 1, 0, None, None),
    ]
    assert run("consume", "odd", "-f", "raw", url=filled.url).stdout_bytes == b"\xff\n\n\n"
    assert run("consume", "odd", url=filled.url).stdout == "\\xff\n\n\n"
    lines = run("consume", "odd", "-f", "json", url=filled.url).stdout.splitlines()
    assert json.loads(lines[0])["value_base64"] == "/wo="
    assert json.loads(lines[0])["headers"] == [{"key": "h", "value_base64": "/g=="}]
    assert json.loads(lines[1])["value"] is None


def test_without_follow_it_ends_at_what_was_there_when_it_began(filled: FakeGateway) -> None:
    """A topic that is written meanwhile does not keep it from ending."""

    def grow(exchange: Any) -> None:
        records = filled.topics["t"].records[1]
        records += [Record("t", 1, offset, 0, None, b"late") for offset in range(10, 30)]
        exchange.carry_out()

    filled.misbehave("GET .*/partitions/1/records", grow)
    result = run("consume", "t", url=filled.url)
    assert len(filled.topics["t"].records[1]) == 30
    assert len(result.stdout.split()) == 20
    assert "late" not in result.stdout


def test_consume_refuses_what_is_not_there(filled: FakeGateway) -> None:
    """An offset beyond the end, an unknown partition, a malformed position."""
    assert run("consume", "t", "--from", "11", url=filled.url).exit_code == ExitCode.REFUSED
    assert run("consume", "t", "-p", "5", url=filled.url).exit_code == ExitCode.REFUSED
    assert run("consume", "t", "--from", "yesterday", url=filled.url).exit_code == ExitCode.USAGE
    assert run("consume", "t", "--json", "-k", ":", url=filled.url).exit_code == ExitCode.USAGE
    assert run("consume", "t", "-f", "xml", url=filled.url).exit_code == ExitCode.USAGE


def start(*arguments: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidelog", *arguments],
        env={**os.environ, "TIDELOG_URL": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_following_until_ctrl_c(filled: FakeGateway) -> None:
    """Records are written as they come; Ctrl-C ends it and says where to go on."""
    process = start("consume", "t", "--from", "end", "--follow", url=filled.url)
    try:
        while filled.count("POST /v1/fetch") == 0:
            time.sleep(0.02)
            assert process.poll() is None
        assert run("produce", "t", "-p", "0", url=filled.url, given=b"new\n").exit_code == 0
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


def test_serve_becomes_the_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is replaced, so that signals and exit codes are the gateway's; options it does not know go on to it."""
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, _: calls.append([program, *arguments]))
    result = run("serve", "--store", "/data", "--port", "9000", "--log-level", "debug", "--read-threads", "4")
    assert result.exit_code == 0
    assert calls == [
        [sys.executable, sys.executable, "-m", "gateway", "--store", "/data", "--host", "127.0.0.1", "--port", "9000",
         "--log-level", "debug", "--log-format", "auto", "--read-threads", "4"],
    ]  # fmt: skip
    assert run("serve").exit_code == ExitCode.USAGE
    monkeypatch.setenv("TIDELOG_PORT", "tcp://10.96.0.12:8080")
    assert run("serve", "--store", "/data").exit_code == 0
    assert calls[1][3:9] == ["gateway", "--store", "/data", "--host", "127.0.0.1", "--log-level"]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = run("serve", "--store", "/data")
    assert result.exit_code == ExitCode.FAILED
    assert "pip install 'tidelog[gateway]'" in result.stderr


def test_pipeline_becomes_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the gateway: signals and exit codes are the job's, and so are the options."""
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, _: calls.append([program, *arguments]))
    assert run("pipeline", "--config", "pipeline.toml", "--json").exit_code == 0
    wanted = [sys.executable, "-m", "spark_pipeline.jobs.pipeline", "--config", "pipeline.toml", "--json"]
    assert calls == [[sys.executable, *wanted]]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    result = run("pipeline")
    assert result.exit_code == ExitCode.FAILED
    assert "pip install 'tidelog[spark]'" in result.stderr


def test_maintain_becomes_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the gateway; metrics are served on this machine unless it is told otherwise, and never of a single round."""
    calls: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda program, arguments, _: calls.append(arguments[3:]))
    assert run("maintain", "--store", "/data", "--workers", "local").exit_code == 0
    assert run("maintain", "--store", "/data", "--every", "60s", "--metrics-port", "9102").exit_code == 0
    assert calls == [
        ["--store", "/data", "--workers", "local", "--once"],
        ["--store", "/data", "--workers", "spark", "--every", "60s", "--metrics-port", "9102", "--metrics-host", "127.0.0.1"],
    ]  # fmt: skip
    assert run("maintain", "--store", "/data", "--metrics-port", "9102").exit_code == ExitCode.USAGE
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "prometheus_client" else find(name))
    result = run("maintain", "--store", "/data", "--every", "60s", "--metrics-port", "9102")
    assert result.exit_code == ExitCode.FAILED
    assert "pip install 'tidelog[spark]'" in result.stderr


def test_versions() -> None:
    """Both ways to ask."""
    assert run("--version").stdout == f"tidelog {__version__}\n"
    assert json.loads(run("version", "--json").stdout)["tidelog"] == __version__
    assert "pyarrow" in run("version").stdout


def test_the_command_line_starts_without_what_it_does_not_need() -> None:
    """``tidelog --help`` imports neither pyarrow nor Spark nor the gateway."""
    code = "import sys; import tidelog.cli.app; import tidelog; print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    for name in ("pyarrow", "numpy", "pyspark", "fastapi", "boto3", "gateway", "spark_pipeline"):
        assert f"'{name}'" not in modules
