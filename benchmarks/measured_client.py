"""A client measured as a process of its own, so that its CPU is counted apart from the servers'.

The client warms up, prints ``ready``, waits for a line, works, and prints a line of JSON with ``seconds`` and ``cpu_seconds``,
and ``latencies_ms`` where it measures them. The servers' CPU between that line and the answer counts as theirs.
"""

from __future__ import annotations

import json
import random
import string
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.processes import Server

DIFFERENT_VALUES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One system's run: records, seconds, and CPU seconds of client and servers."""

    system: str
    records: int
    seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float
    latencies_ms: tuple[float, ...] = ()
    """From when a record was due to its acknowledgement, where the client says so."""

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    def cpu_us(self, seconds: float) -> float:
        """Microseconds of CPU per record."""
        return seconds / self.records * 1e6


def values(value_bytes: int) -> list[str]:
    """Random capital letters, as Kafka's ProducerPerformance sends them; the same in every run."""
    rng = random.Random(1)
    return ["".join(rng.choices(string.ascii_uppercase, k=value_bytes)) for _ in range(DIFFERENT_VALUES)]


def run(system: str, command: Sequence[str], servers: Sequence[Server], *, records: int, value_bytes: int) -> Sent:
    """Run a client, whose values are one line of JSON strings, separated by tabs. Raises ``RuntimeError`` when it fails."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write("\t".join(map(json.dumps, values(value_bytes))) + "\n")
        client.stdin.flush()
        ready = client.stdout.readline()
        before = sum(server.cpu_seconds() for server in servers)
        if ready:
            client.stdin.write("go\n")
            client.stdin.flush()
        answer = client.stdout.readline()
        after = sum(server.cpu_seconds() for server in servers)
    if not answer:
        raise RuntimeError(f"{system} failed with exit code {client.returncode}")
    measured = json.loads(answer)
    return Sent(
        system=system,
        records=records,
        seconds=measured["seconds"],
        client_cpu_seconds=measured["cpu_seconds"],
        server_cpu_seconds=after - before,
        latencies_ms=tuple(measured.get("latencies_ms", ())),
    )
