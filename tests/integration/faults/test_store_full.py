"""A directory on a file system that becomes read-only, and on one that is full: refusals, reads go on, then all goes on.

The file system is a small one in memory, mounted where only the gateway sees it.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.waiting import until

AS_ROOT = ("--map-root-user", "--user") if os.geteuid() else ()
"""A test that does not run as root mounts in a user namespace of its own."""
SIZE_BYTES = 4 * 1024 * 1024


class SmallDisk:
    """A gateway's store on a file system of 4 MiB."""

    def __init__(self, gateway: GatewayProcess, directory: Path) -> None:
        self.gateway = gateway
        self.directory = directory

    def run(self, *command: str) -> None:
        """A command that sees the file system."""
        enter = (
            "nsenter",
            "-t",
            str(self.gateway.process.pid),
            "-m",
            *(("-U", "--preserve-credentials") if AS_ROOT else ()),
        )
        subprocess.run([*enter, *command], check=True, capture_output=True, timeout=20)

    def remount(self, mode: str) -> None:
        """``ro`` or ``rw``; refused while a file is being written."""
        for _ in range(50):
            try:
                self.run("mount", "-o", f"remount,bind,{mode}", str(self.directory))
            except subprocess.CalledProcessError:
                time.sleep(0.05)
            else:
                return
        pytest.fail(f"the file system does not become {mode}")


@pytest.fixture
def disk(tmp_path: Path, start_gateway: StartGateway) -> SmallDisk:
    """Mounted, with a gateway that reads everything from it, and 1 MiB of something else on it."""
    if subprocess.run(["unshare", *AS_ROOT, "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mounts, not even in a namespace of one's own")
    directory = tmp_path / "disk"
    directory.mkdir()
    script = f'mount -t tmpfs -o size={SIZE_BYTES} tmpfs "$0" && head -c 1048576 /dev/zero > "$0/ballast" && exec "$@"'
    prefix = ("unshare", *AS_ROOT, "--mount", "sh", "-c", script, str(directory))
    gateway = start_gateway(str(directory / "store"), "--tail-cache-bytes-max", "0", prefix=prefix)
    return SmallDisk(gateway, directory)


def refused(answer: Any, said: str) -> None:
    assert (answer.status_code, answer.json()["error_code"]) == (503, "UNAVAILABLE"), answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["retryable"] is True
    assert answer.json()["may_have_happened"] is False
    assert said in answer.json()["detail"]


def test_read_only(disk: SmallDisk) -> None:
    """Writes of any kind are refused while nothing can be written, and say why; reads go on; then writes do, with no restart."""
    gateway = disk.gateway
    gateway.topic("log")
    assert gateway.produce("log", "a", "b").status_code == 200
    disk.remount("ro")
    until(lambda: "failing_writes" in gateway.http.get("/readyz").json(), what="no heartbeat has failed")
    assert 'tidelog_store_writes_failing{reason="read_only"} 1.0' in gateway.http.get("/metrics").text
    refused(gateway.produce("log", "refused"), "read-only")
    assert gateway.http.post("/v1/topics", json={"name": "another"}).status_code == 503
    assert gateway.http.patch("/v1/topics/log", json={"partition_count": 2}).status_code == 503
    assert gateway.http.delete("/v1/topics/log").status_code == 503
    assert gateway.read("log") == [(0, "a"), (1, "b")]
    ready = gateway.http.get("/readyz")
    assert (ready.status_code, ready.json()["failing_writes"]["reason"]) == (200, "read_only")
    disk.remount("rw")
    assert gateway.produce("log", "c").status_code == 200
    assert gateway.http.get("/readyz").json() == {"status": "ready"}
    assert gateway.read("log") == [(0, "a"), (1, "b"), (2, "c")]
    assert [topic["name"] for topic in gateway.http.get("/v1/topics").json()["topics"]] == ["log"]
    assert gateway.http.get("/v1/topics/log").json()["partition_count"] == 1


def test_full(disk: SmallDisk) -> None:
    """What no longer fits is refused; everything acknowledged stays, and when there is room again writing goes on."""
    gateway = disk.gateway
    gateway.topic("log")
    kept: list[str] = []
    for number in range(100):
        value = os.urandom(100_000).hex()
        answer = gateway.produce("log", value)
        if answer.status_code != 200:
            break
        assert answer.json()["partitions"][0]["base_offset"] == number
        kept.append(value)
    assert len(kept) > 5
    refused(answer, "full")
    refused(gateway.produce("log", os.urandom(500_000).hex()), "full")
    assert [value for _, value in gateway.read("log")] == kept
    disk.run("rm", f"{disk.directory}/ballast")
    for _ in range(3):
        kept.append(os.urandom(100_000).hex())
        assert gateway.produce("log", kept[-1]).status_code == 200
    assert gateway.read("log") == list(enumerate(kept))
