"""``python -m benchmarks.collect``: files into a topic by ``tidelog collect`` beside ``cat file | tidelog produce``.

MB of log lines per second, per CPU second of the client alone, and per CPU second of client and gateway together. The floor is
``cat`` alone: it reads and writes the same bytes and does nothing else.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import processes
from benchmarks.processes import Server, call
from benchmarks.report import Table
from benchmarks.rotating_logs import LINE_BYTES, make_lines

PARTITIONS = 8
FILES = 8


def _measured(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of ``run``, and CPU seconds of the child processes that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    run()
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _shell(command: str) -> Callable[[], object]:
    return lambda: subprocess.run(["/bin/sh", "-ec", command], check=True, capture_output=True, timeout=600)


def measure(server: Server, directory: Path, megabytes: int) -> Table:
    """One table; ``directory`` is empty and has room for the logs."""
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
        call(server.port, "POST", "/v1/topics", {"name": topic, "partition_count": PARTITIONS})
        before = server.cpu_seconds()
        seconds, cpu = _measured(_shell(command.format(topic=topic)))
        both = cpu + server.cpu_seconds() - before
        table.add(name, f"{size / seconds:,.0f}", f"{size / cpu:,.0f}", f"{size / both:,.1f}")
        partitions = call(server.port, "GET", f"/v1/topics/{topic}")["partitions"]
        stored = sum(partition["high_watermark"] for partition in partitions)  # type: ignore[attr-defined]
        assert stored == lines * FILES, f"{name} stored {stored} of {lines * FILES} lines"
    return table


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collect", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-collect-") as directory,
        processes.directory() as store,
        processes.gateway(store) as server,
    ):
        measure(server, Path(directory), arguments.megabytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
