"""Files into a topic by ``tidelog collect`` beside ``cat file | tidelog produce``.

MB of log lines per second, per CPU second of the client alone, and per CPU second of client and gateway together. The floor is
``cat`` alone: it reads and writes the same bytes and does nothing else.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.collect.rotating_logs import LINE_BYTES, make_lines
from benchmarks.harness import stores
from benchmarks.harness.options import Options
from benchmarks.harness.processes import PARTITIONS, Server, call, gateway, make_topic
from benchmarks.harness.report import Table

FILES = 8


def _measured(run: Callable[[], object]) -> tuple[float, float]:
    """Measure the seconds of ``run``, and CPU seconds of the child processes that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _shell(command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["/bin/sh", "-ec", command], check=True, capture_output=True, timeout=600)


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: ways of collecting the same files."""
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-collect-") as directory,
        stores.directory() as store,
        gateway(store) as server,
    ):
        yield _table(server, Path(directory), options.megabytes)


def _table(server: Server, directory: Path, megabytes: int) -> Table:
    table = Table(
        f"{megabytes} MB of {LINE_BYTES}-byte log lines in {FILES} files, directory store, {PARTITIONS} partitions",
        ["how", "MB/s", "MB per client CPU second", "MB per CPU second of client and gateway"],
    )
    lines = megabytes * 1_000_000 // LINE_BYTES // FILES
    for file in range(FILES):
        (directory / f"{file}.log").write_bytes(make_lines(file, 0, 0, lines))
    size = lines * FILES * LINE_BYTES / 1e6
    tidelog = f"{sys.executable} -m tidelog"
    url = f"--url http://127.0.0.1:{server.port}"
    collect = f"{tidelog} collect '{directory}/*.log' {url} --once --state {directory}/{{topic}}.state -t {{topic}}"
    ways = {
        "tidelog collect": collect,
        "tidelog collect --no-headers": f"{collect} --no-headers",
        "cat | tidelog produce": f"cat {directory}/*.log | {tidelog} produce {{topic}} {url}",
    }
    seconds, cpu = _measured(_shell(f"cat {directory}/*.log | cat > {os.devnull}"))
    table.add("cat | cat (floor)", f"{size / seconds:,.0f}", f"{size / cpu:,.0f}", "-")
    for index, (name, command) in enumerate(ways.items()):
        topic = f"logs-{index}"
        make_topic(server.port, topic)
        before = server.cpu_seconds()
        seconds, cpu = _measured(_shell(command.format(topic=topic)))
        both = cpu + server.cpu_seconds() - before
        table.add(name, f"{size / seconds:,.0f}", f"{size / cpu:,.0f}", f"{size / both:,.1f}")
        partitions = call(server.port, "GET", f"/v1/topics/{topic}")["partitions"]
        stored = sum(partition["high_watermark"] for partition in partitions)
        assert stored == lines * FILES, f"{name} stored {stored} of {lines * FILES} lines"
    return table
