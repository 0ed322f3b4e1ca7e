"""``tidelog demo`` as a process: it proves the line and leaves nothing running, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.java import FAST_START
from tests.support.topic_writer import TopicWriter

pytestmark = pytest.mark.spark

COMMAND = [sys.executable, "-c", "from tidelog.__main__ import main; main()", "demo"]
START_SECONDS_MAX = 120
END_SECONDS_MAX = 60


@pytest.fixture
def environment(minio_environment: dict[str, str]) -> dict[str, str]:
    return dict(os.environ) | minio_environment | {"SPARK_SUBMIT_OPTS": FAST_START}


@pytest.mark.timeout(300)
def test_the_demo_proves_the_line(s3_uri: str, environment: dict[str, str], tmp_path: Path) -> None:
    """Every acknowledged record comes back by all three ways, and the exit code says so. (The other tests' are directories.)"""
    options = ["--store", s3_uri, "--records", "5000", "--rate", "0", "--json"]
    finished = subprocess.run(
        [*COMMAND, *options], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert finished.returncode == 0, finished.stderr[-4000:]
    result = json.loads(finished.stdout)
    assert result["agree"] is True
    wanted = result["acknowledged"]
    assert wanted["count"] == 5_000
    assert set(result["ways"]) == {"HTTP", "Spark", "deltalake"}
    for way in result["ways"].values():
        assert {name: way[name] for name in wanted} == wanted
    assert result["maintenance"]["rounds"] >= 1
    assert result["maintenance"]["failed_topics"] == 0
    assert result["lag_ms"]["p99_ms"] >= result["lag_ms"]["p50_ms"] >= 0
    assert (tmp_path / result["picture"]).read_bytes().startswith(b"\x89PNG")
    assert "tidelog verify flights" in finished.stderr


def test_a_topic_that_is_there_is_not_mixed_with(environment: dict[str, str], tmp_path: Path) -> None:
    """A second run on one store would prove nothing, and would write into a user's topic: the demo refuses it first."""
    TopicWriter(str(tmp_path / "store"), "flights", partition_count=8, config={"retention.ms": "-1"})
    finished = subprocess.run(
        [*COMMAND, "--store", str(tmp_path / "store"), "--records", "10"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert finished.returncode == 4
    assert "exists" in finished.stdout


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process(
    signal_number: signal.Signals, environment: dict[str, str], tmp_path: Path
) -> None:
    """Ctrl-C while the gateway and Spark run: both are gone with the demo, Spark's Java included."""
    with (tmp_path / "log").open("wb") as log:
        demo = subprocess.Popen(
            [*COMMAND, "--rate", "1"], env=environment, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
        )
    children: list[psutil.Process] = []
    try:
        children = _children_with_java(demo)
        demo.send_signal(signal_number)
        assert demo.wait(END_SECONDS_MAX) == 128 + signal_number, (tmp_path / "log").read_text()
        _, alive = psutil.wait_procs(children, timeout=1)
        assert alive == []
    finally:
        with suppress(psutil.NoSuchProcess):
            children += psutil.Process(demo.pid).children(recursive=True)
        demo.kill()
        for process in children:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        demo.wait()


def _children_with_java(demo: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """All processes below the demo, once Spark's Java is among them."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while demo.poll() is None and time.monotonic() < deadline:
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(demo.pid).children(recursive=True)
            if any("org.apache.spark.deploy.SparkSubmit" in child.cmdline() for child in children):
                return children
        time.sleep(0.1)
    pytest.fail("Spark did not start")
