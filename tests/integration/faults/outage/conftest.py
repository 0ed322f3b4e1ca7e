"""``own_minio``: a MinIO server that a test may stop, kill and restart on the same port and data."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3

START_SECONDS_MAX = 60


class OwnMinio:
    """A server on one port and one directory, through all its deaths."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog") / "bin" / "minio"
        assert self._program.is_file(), f"{self._program} is missing: run 'scripts/minio.sh install' (it needs Go)"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.client("s3").create_bucket(Bucket="log")

    def environment(self, **more: str) -> dict[str, str]:
        """The variables by which a gateway finds it, with the root's keys unless told otherwise."""
        keys = {"AWS_ACCESS_KEY_ID": "own-minio", "AWS_SECRET_ACCESS_KEY": "own-minio-secret"}
        return (
            keys | {"AWS_ENDPOINT_URL": self.url, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"} | more
        )

    def client(self, service: str) -> Any:
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.url,
            aws_access_key_id="own-minio",
            aws_secret_access_key="own-minio-secret",
            region_name="us-east-1",
        )

    def start(self) -> None:
        environment = {"HOME": str(self._directory), "PATH": os.environ.get("PATH", ""), "MINIO_BROWSER": "off"}
        environment |= {
            "MINIO_ROOT_USER": "own-minio",
            "MINIO_ROOT_PASSWORD": "own-minio-secret",
            "MINIO_UPDATE": "off",
        }
        command = [self._program, "server", "--quiet", "--address", f"127.0.0.1:{self._port}"]
        with (self._directory / "minio.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._directory / "data")], env=environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        with urllib3.PoolManager(retries=False, timeout=2) as http:
            while time.monotonic() < deadline:
                with contextlib.suppress(urllib3.exceptions.HTTPError):
                    if http.request("GET", f"{self.url}/minio/health/live").status == 200:
                        return
                time.sleep(0.05)
        pytest.fail(f"MinIO does not start:\n{(self._directory / 'minio.log').read_text(errors='replace')}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def own_minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnMinio]:
    """Running, with an empty bucket ``log``; a test leaves it running."""
    server = OwnMinio(tmp_path_factory.mktemp("own-minio"))
    yield server
    server.go_on()
    server.kill()
