"""A topic with old records, and what is seen of a gateway's readers of history."""

from __future__ import annotations

import base64
import contextlib
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.support.gateway_process import GatewayProcess

PATIENCE_S = 60
COUNT = 24_000
PATH = "/v1/topics/t/partitions/0/records"
TYPES = ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream")
LAST_CHUNK = b"\r\n0\r\n\r\n"
NO_TAIL = ("--tail-cache-bytes-max", "0")


def wait_until(what: str, is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def readers(gateway: GatewayProcess) -> list[int]:
    """Process ids of its readers."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(gateway.process.pid)], capture_output=True, text=True, check=False
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "history_reader" in line]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def answered(gateway: GatewayProcess) -> float:
    """Fetches that its readers answered."""
    return gateway.metric('tidelog_history_requests_total{outcome="answered"}')


def wait_for_readers(gateway: GatewayProcess, count: int = 1) -> None:
    """A fetch from far behind the tail starts them."""

    def are_there() -> bool:
        assert fetched(gateway, TYPES[0], None, offset=0, max_records=1_000, max_bytes=1 << 20).status_code in {
            200,
            503,
        }
        return gateway.metric("tidelog_history_readers") == count

    wait_until("readers take fetches", are_there)


def wait_for_another(gateway: GatewayProcess, dead: int) -> None:
    wait_until("another one is there", lambda: readers(gateway) not in ([], [dead]))


def fill(gateway: GatewayProcess) -> None:
    """The topic ``t``: 24,000 records with keys and headers, 13 MB, in eight segments."""
    gateway.topic("t", commit_mode="own")
    made = random.Random(7)
    for first in range(0, COUNT, COUNT // 8):
        records: list[dict[str, Any]] = [
            {
                "key": f"k{number % 50}",
                "value_base64": base64.b64encode(made.randbytes(500)).decode(),
                "headers": [{"key": "h", "value": "x" * (number % 40)}],
            }
            if number % 3
            else {"key": f"k{number}", "value": f"line {number} " * 50}
            for number in range(first, first + COUNT // 8)
        ]
        assert gateway.http.post(PATH, json={"records": records}).status_code == 200


def fetched(gateway: GatewayProcess, accept: str, encoding: str | None, **query: Any) -> httpx.Response:
    headers = {"Accept": accept, "Accept-Encoding": encoding or "identity"}
    return gateway.http.get(PATH, params=query, headers=headers)


def sockets_of(pid: int) -> int:
    """Of a reader: one for control, and two for each task. One that is closed meanwhile does not count."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += "socket:" in str(link.readlink())
    return found
