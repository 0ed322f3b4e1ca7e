"""A client measured as a process of its own, so that its CPU is counted apart from the servers'.

The client warms up, prints ``ready``, waits for a line, works, and prints a line of JSON: ``seconds``, and what it measures of
``cpu_seconds`` and ``latencies_ms``. What the servers do between that line and the answer counts as theirs.
"""

from __future__ import annotations

import json
import random
import string
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Self

from benchmarks.harness.processes import ROOT, Server

DIFFERENT_VALUES: Final = 1000
SECONDS_MAX: Final = 600


class ClientFailed(RuntimeError):
    """A client that ended without an answer."""


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
        """Records a second."""
        return self.records / self.seconds

    def cpu_us(self, seconds: float) -> float:
        """Return microseconds of CPU a record."""
        return seconds / self.records * 1e6

    def cells(self) -> tuple[str, ...]:
        """Return cells for ``SENT_COLUMNS``."""
        client, server = self.cpu_us(self.client_cpu_seconds), self.cpu_us(self.server_cpu_seconds)
        return self.system, f"{self.rate:,.0f}", f"{client:.2f}", f"{server:.2f}", f"{client + server:.2f}"


SENT_COLUMNS: Final = ("system", "records/s", "client us/record", "server and store us/record", "all, CPU us/record")


def told(
    command: Sequence[str],
    *,
    given: str = "",
    counting: AbstractContextManager[object] | None = None,
    seconds_max: float = SECONDS_MAX,
) -> dict[str, Any]:
    """Run a client, and return what it printed. Raises ``ClientFailed`` where it prints nothing, or goes on for too long.

    Args:
        command: the command line.
        given: what the client reads first.
        counting: entered while the client works.
        seconds_max: after so long the client is killed.
    """
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True, cwd=ROOT
        ) as client,
    ):
        assert client.stdin is not None
        assert client.stdout is not None
        ending = threading.Timer(seconds_max, client.kill)
        ending.start()
        try:
            client.stdin.write(given)
            client.stdin.flush()
            ready = client.stdout.readline()
            with counting or nullcontext():
                if ready:
                    client.stdin.write("go\n")
                    client.stdin.flush()
                answer = client.stdout.readline()
        finally:
            ending.cancel()
        if not answer:
            complaints.seek(0)
            raise ClientFailed(f"{' '.join(command[-4:])} ended: {complaints.read()[-500:]}")
    found: dict[str, Any] = json.loads(answer)
    return found


def values(value_bytes: int) -> list[str]:
    """Return random capital letters, as Kafka's ProducerPerformance sends them; the same in every run."""
    rng = random.Random(1)
    return ["".join(rng.choices(string.ascii_uppercase, k=value_bytes)) for _ in range(DIFFERENT_VALUES)]


class _Cpu(AbstractContextManager["_Cpu"]):
    """The CPU seconds that servers take in a block."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self.seconds -= sum(server.cpu_seconds() for server in self._servers)
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += sum(server.cpu_seconds() for server in self._servers)


def run(system: str, command: Sequence[str], servers: Sequence[Server], *, records: int, value_bytes: int) -> Sent:
    """Run a client that sends records, and return what that took. Raises ``ClientFailed`` as ``told`` does.

    Args:
        system: the client's name in tables.
        command: the command line. It reads its values first: one line of JSON strings, separated by tabs.
        servers: the processes whose CPU counts as the servers'.
        records: the number of records that the client sends.
        value_bytes: the size of each value.
    """
    cpu = _Cpu(servers)
    measured = told(command, given="\t".join(map(json.dumps, values(value_bytes))) + "\n", counting=cpu)
    return Sent(
        system=system,
        records=records,
        seconds=measured["seconds"],
        client_cpu_seconds=measured["cpu_seconds"],
        server_cpu_seconds=cpu.seconds,
        latencies_ms=tuple(measured.get("latencies_ms", ())),
    )
