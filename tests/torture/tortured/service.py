"""The processes under torture: MinIO, and gateways on it, each behind a proxy of its own. Ended by pid."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import urllib3

from tests.torture.tortured.proxy import Proxy

START_SECONDS_MAX = 240
"""On a machine that is busy with a whole test suite."""
BUCKET = "torture"
STORE = f"s3://{BUCKET}/log"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Process:
    """A server on a fixed port that can be killed, frozen and started again."""

    def __init__(
        self, name: str, command: list[str], port: int, ready: str, environment: dict[str, str], log: Path
    ) -> None:
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._command = command
        self._ready = ready
        self._environment = {**os.environ, **environment}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.frozen = False

    def start(self, *, wait: bool = True) -> None:
        """Start it; with ``wait`` until it answers. Raises ``RuntimeError`` when it does not."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, env=self._environment)
        self.frozen = False
        if not wait:
            return
        deadline = time.monotonic() + START_SECONDS_MAX
        with urllib3.PoolManager(retries=False, timeout=2) as http:
            while time.monotonic() < deadline and self._process.poll() is None:
                with contextlib.suppress(urllib3.exceptions.HTTPError):
                    if http.request("GET", self.url + self._ready).status == 200:
                        return
                time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self.frozen = number is signal.SIGSTOP

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> int | None:
        """End it as an operator would; its exit code."""
        if self._process is None:
            return None
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Service:
    """MinIO and gateways, up and running."""

    def __init__(self, directory: Path, gateways: int) -> None:
        cache = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog")
        keys = {"access": "torture", "secret": secrets.token_hex(16)}
        port = free_port()
        self.minio = Process(
            "MinIO",
            [
                str(cache / "bin" / "minio"),
                "server",
                "--quiet",
                "--address",
                f"127.0.0.1:{port}",
                str(directory / "minio"),
            ],
            port,
            "/minio/health/live",
            {"MINIO_ROOT_USER": keys["access"], "MINIO_ROOT_PASSWORD": keys["secret"], "MINIO_BROWSER": "off"},
            directory / "minio.log",
        )
        self.environment = _aws(port, keys)
        self.minio.start()
        client = boto3.client(
            "s3",
            endpoint_url=self.minio.url,
            aws_access_key_id=keys["access"],
            aws_secret_access_key=keys["secret"],
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        self.proxies = [Proxy(port) for _ in range(gateways)]
        self.gateways = []
        for index, proxy in enumerate(self.proxies):
            own = free_port()
            command = [sys.executable, "-m", "gateway", "--store", STORE, "--port", str(own), "--log-level", "warning"]
            log = directory / f"gateway-{index}.log"
            gateway = Process(f"gateway {index}", command, own, "/readyz", _aws(proxy.port, keys), log)
            self.gateways.append(gateway)
            gateway.start()

    @property
    def urls(self) -> list[str]:
        """Of all gateways."""
        return [gateway.url for gateway in self.gateways]

    def close(self) -> None:
        """End everything."""
        for gateway in self.gateways:
            gateway.signal(signal.SIGCONT)
            gateway.kill()
        for proxy in self.proxies:
            proxy.close()
        self.minio.signal(signal.SIGCONT)
        self.minio.kill()


@contextlib.contextmanager
def service(directory: Path, gateways: int = 3) -> Iterator[Service]:
    """A service for the time of the block."""
    running = Service(directory, gateways)
    try:
        yield running
    finally:
        running.close()


def _aws(port: int, keys: dict[str, str]) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": keys["access"],
        "AWS_SECRET_ACCESS_KEY": keys["secret"],
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
