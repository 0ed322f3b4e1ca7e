"""Options that are durations take what people write, whichever unit a number alone counts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer
import typer.main

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog.cli.app import app
from tidelog.cli.terminal.durations import in_milliseconds, in_seconds
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.positions import past_ms

_DURATION = re.compile(r"--(timeout|every|seconds|duration|interval|.*-(ms|after|every|timeout|interval|seconds))")


def _options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from _options(each, (*path, name))
    for each in command.params:
        if any(_DURATION.fullmatch(option) for option in each.opts):
            yield " ".join((*path, each.opts[0])), each


OPTIONS = dict(_options(typer.main.get_command(app)))


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_that_is_a_duration_takes_a_span(name: str) -> None:
    """No command refuses ``15m`` or ``1h`` for being text."""
    option = OPTIONS[name]
    context = typer.Context(typer.main.get_command(app))
    text = "20s" if name.endswith("--wait-ms") else "15m"
    found = option.process_value(context, text)
    if name.endswith("--backoff-ms"):
        return  # a list, which the command itself takes apart
    assert found == (20 if "20" in text else 900) * (1000 if name.endswith("-ms") else 1)


def test_there_are_such_options() -> None:
    """The search above finds them: a pattern that finds none would prove nothing."""
    assert {"topic list --timeout", "lag --every", "queue settle --delay-ms", "maintain --every"} <= OPTIONS.keys()


@pytest.mark.parametrize(
    ("text", "found_s"), [("3s", 3.0), ("500ms", 0.5), ("1h", 3600.0), ("1m30s", 90.0), ("1.5s", 1.5), ("0.25", 0.25)]
)
def test_seconds(text: str, found_s: float) -> None:
    """With a unit by that unit, without one in seconds."""
    assert in_seconds(least=0.1)(text) == found_s


@pytest.mark.parametrize(("text", "found_ms"), [("3s", 3000), ("500ms", 500), ("1h", 3_600_000), ("250", 250)])
def test_milliseconds(text: str, found_ms: int) -> None:
    """With a unit by that unit, without one in milliseconds."""
    assert in_milliseconds(least=0)(text) == found_ms


@pytest.mark.parametrize("text", ["5x", "soon", "nan", "inf", "-3s", "0", "2h", ""])
def test_what_is_no_duration_is_refused_with_what_is(text: str) -> None:
    """A typing error, and what is out of range, never becomes a wait."""
    with pytest.raises(typer.BadParameter, match=r"is not a duration of 0\.1 s to 3600 s \(500ms, 3s, 1h"):
        in_seconds(least=0.1, most=3600)(text)
    with pytest.raises(typer.BadParameter, match="or a number of milliseconds"):
        in_milliseconds(least=1, most=3_600_000)(text)


def test_at_the_shell(run: Run, gateway: FakeGateway, dead_url: str) -> None:
    """Also from the environment, and by what the command does with it."""
    gateway.create("t")
    assert run("topic", "list", "--timeout", "3s").exit_code == ExitCode.OK
    assert run("topic", "list", TIDELOG_TIMEOUT="1m").exit_code == ExitCode.OK
    assert run("topic", "list", "--url", dead_url, "--timeout", "300ms").exit_code == ExitCode.UNREACHABLE
    refused = run("topic", "list", "--timeout", "5x")
    assert refused.exit_code == ExitCode.USAGE
    assert "'5x' is not a duration" in refused.stderr
    assert "Value error" not in refused.stderr
    assert run("queue", "create", "q", "t", "--lock-ms", "1m", "--backoff-ms", "1s,10s").exit_code == ExitCode.OK
    assert gateway.queues["q"].settings["lock_ms"] == 60_000
    assert gateway.queues["q"].settings["backoff_ms"] == [1_000, 10_000]
    assert run("queue", "create", "q", "t", "--backoff-ms", "1x").exit_code == ExitCode.USAGE


def test_times_are_typed_in_three_ways() -> None:
    """ISO 8601, milliseconds behind an @, and a duration before now; other text is refused."""
    assert (
        past_ms("2025-01-31T08:00:00Z") == past_ms("2025-01-31T08:00") == past_ms("@1738310400000") == 1_738_310_400_000
    )
    assert abs(past_ms("1h") - (time.time() - 3600) * 1000) < 60_000
    with pytest.raises(ValueError, match="yesterday"):
        past_ms("yesterday")


def test_a_quota_takes_sizes(run: Run, gateway: FakeGateway) -> None:
    """Bytes with a unit are bytes; a number of requests has no unit."""
    gateway.misbehave("^GET /v1/access/quotas", lambda exchange: exchange.answer(200, b'{"principal":"*"}', {}))
    assert run("quota", "set", "*", "--produce-bytes-per-s", "1MB", "--url", gateway.url).exit_code in {
        0,
        ExitCode.REFUSED,
    }
    (sent,) = [each for each in gateway.asked if each.method == "PUT"]
    assert b'"produce_bytes_per_s":1000000' in sent.body
    refused = run("quota", "set", "*", "--requests-per-s", "1MB")
    assert refused.exit_code == ExitCode.USAGE
