"""``python -m benchmarks collect-kills``: rotating files into a topic, with repeated kills of agent and gateway.

Prints one JSON object. Exits with 0 when the topic has exactly the lines written, once and in order in each file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import deltalake
import pyarrow as pa

from benchmarks.collect.rotating_logs import RotatingLogs, problems
from benchmarks.harness.processes import PARTITIONS, call, free_port, make_topic

START_SECONDS_MAX = 60.0


class Victim:
    """A process that is killed and started again."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self.kills = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            self._log_start = output.seek(0, os.SEEK_END)
            return subprocess.Popen(self._command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def kill_and_start(self, pause_s: float) -> None:
        """Kill the process, and start a new one after a pause."""
        self.process.kill()
        self.process.wait()
        self.kills += 1
        time.sleep(pause_s)
        self.process = self._start()

    def wait_told(self, text: bytes) -> None:
        """Wait until the process has written ``text``."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while text not in self._log.read_bytes()[self._log_start :]:
            assert time.monotonic() < deadline, f"{text!r} was not told"
            time.sleep(0.05)

    def end(self) -> int:
        """Terminate the process, and return its exit code."""
        self.process.terminate()
        return self.process.wait(120)


def _agent_command(directory: Path, port: int, *options: str) -> list[str]:
    patterns = str(directory / "logs" / "*.log*")
    state = str(directory / "agent.state")
    url = f"http://127.0.0.1:{port}"
    return [
        sys.executable, "-m", "tidelog", "collect", patterns, "-t", "logs", "--state", state, "--url", url, "--json", *options,
    ]  # fmt: skip


def _wait_ready(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            call(port, "GET", "/readyz")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _stored(directory: Path) -> list[pa.Array]:
    """Return the values of each partition by offset, read as any Delta reader does."""
    table = deltalake.DeltaTable(str(directory / "store" / "topics" / "logs"))
    columns = table.to_pyarrow_table(columns=["partition", "offset", "value"])
    values = []
    for partition in range(PARTITIONS):
        rows = columns.filter(pa.compute.equal(columns["partition"], partition)).sort_by("offset")
        offsets = rows["offset"].to_numpy()
        assert (offsets == range(len(offsets))).all() if len(offsets) else True
        column = rows["value"].cast(pa.binary()).combine_chunks()
        values.append(pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column)
    return values


def run(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Run one history; ``problems`` in the result is empty if the topic is right."""
    rng = random.Random(arguments.seed)
    (directory / "logs").mkdir()
    port = free_port()
    gateway = Victim(
        [
            *(sys.executable, "-m", "gateway", "--workers", "1"),
            *("--store", (directory / "store").as_uri(), "--port", str(port)),
        ],
        directory / "gateway.out",
    )
    victims = [gateway]
    stop = threading.Event()
    logs = RotatingLogs(directory / "logs", arguments.files, random.Random(arguments.seed + 1))
    total = arguments.megabytes * 1_000_000
    began = time.monotonic()
    try:
        _wait_ready(port)
        make_topic(port, "logs")
        agent = Victim(_agent_command(directory, port), directory / "agent.out")
        victims.append(agent)
        rate = arguments.megabytes_per_second * 1e6
        writer = threading.Thread(target=logs.write, args=(total, arguments.rotate_bytes, rate, stop))
        writer.start()
        while writer.is_alive():
            writer.join(rng.uniform(*arguments.kill_every))
            victim = rng.choice([agent, agent, gateway])
            victim.kill_and_start(rng.uniform(0, 0.5))
        written_s = time.monotonic() - began
        _wait_ready(port)
        agent.wait_told(b"Started")
        exit_code = agent.end()
        subprocess.run(
            _agent_command(directory, port, "--once"),
            check=True,
            timeout=600,
            stderr=(directory / "once.out").open("wb"),
        )
        ended_s = time.monotonic() - began
    finally:
        stop.set()
        for victim in victims:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                victim.end()
    told = [
        json.loads(line)
        for name in ("agent.out", "once.out")
        for line in (directory / name).read_text().splitlines()
        if line.startswith("{")
    ]
    found = problems(_stored(directory), logs.written)
    found += [f"the agent told: {line}" for line in told if line["level"] == "error"][:20]
    if exit_code != 0:
        found.append(f"the agent ended with {exit_code}")
    return {
        "megabytes": arguments.megabytes,
        "files": arguments.files,
        "lines": sum(logs.written.values()),
        "rotations": dict(logs.rotations),
        "agent_kills": agent.kills,
        "gateway_kills": gateway.kills,
        "writing_seconds": round(written_s, 1),
        "seconds": round(ended_s, 1),
        "problems": found,
    }


def main(given: Sequence[str]) -> int:
    """Run one history and print its result. Returns 1 if the topic is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks collect-kills", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--rotate-bytes", type=int, default=4_000_000, help="a file is rotated at this size")
    parser.add_argument("--megabytes-per-second", type=float, default=25.0, help="how fast the files are written")
    parser.add_argument("--kill-every", type=float, nargs=2, default=(0.5, 4.0), metavar="SECONDS", help="from, to")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--keep", action="store_true", help="keep the files for a look")
    arguments = parser.parse_args(given)
    directory = Path(tempfile.mkdtemp(prefix="tidelog-collect-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        result = run(arguments, directory)
    finally:
        if arguments.keep:
            print(directory, file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"seed": arguments.seed, **result}))
    return 1 if result["problems"] else 0
