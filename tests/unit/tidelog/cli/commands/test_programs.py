"""Commands that become another program: ``tidelog serve``, ``pipeline``, ``maintain``."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from tests.support.command_runs import Run
from tidelog.cli.terminal.exit_code import ExitCode


def test_serve_becomes_the_gateway(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_pipeline_becomes_the_job(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_maintain_becomes_the_job(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
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
