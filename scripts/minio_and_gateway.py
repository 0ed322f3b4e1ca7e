"""Run a MinIO server and a gateway on it in the foreground, for local development; Ctrl-C ends both.

The gateway ends first, so that it can flush and acknowledge its records. Both listen on 127.0.0.1 only. MinIO serves any web page
that has its password, so that is a new one with each start, unless ``MINIO_ROOT_PASSWORD`` names one.
"""
# ruff: noqa: INP001, T201, S603 - a program of its own that talks to a terminal and starts two others

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import boto3
import urllib3

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 60
BUCKET = "tidelog"


def main() -> int:
    """Run both until one of them ends or the user presses Ctrl-C, and return the exit status."""
    cache = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog")
    parser = argparse.ArgumentParser(prog="make minio ARGS=...", description=__doc__)
    parser.add_argument("--minio-port", type=int, default=9000)
    parser.add_argument("--gateway-port", type=int, default=8080)
    parser.add_argument("--data", type=Path, default=cache / "minio-data", help="where MinIO keeps its objects")
    arguments = parser.parse_args()

    _check_free(arguments.minio_port, "--minio-port")
    _check_free(arguments.gateway_port, "--gateway-port")
    endpoint = f"http://127.0.0.1:{arguments.minio_port}"
    user, password = credentials(os.environ)
    variables = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": user,
        "AWS_SECRET_ACCESS_KEY": password,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    os.environ.update(variables)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    running: list[subprocess.Popen[bytes]] = []
    try:
        arguments.data.mkdir(parents=True, exist_ok=True)
        running.append(_start_minio(cache / "bin" / "minio", arguments.minio_port, arguments.data, user, password))
        _wait_until_alive(running[0], f"{endpoint}/minio/health/cluster")
        _create_bucket()
        running.append(_start_gateway(arguments.gateway_port))
        _wait_until_alive(running[1], f"http://127.0.0.1:{arguments.gateway_port}/readyz")
        _explain(arguments.gateway_port, variables)
        while all(process.poll() is None for process in running):
            time.sleep(0.5)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for process in reversed(running):
            _stop(process)


def credentials(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the name and the password of MinIO's root user: those of the environment, or a new password."""
    user, password = (environment.get(f"MINIO_ROOT_{name}") for name in ("USER", "PASSWORD"))
    return user or "minioadmin", password or secrets.token_hex(16)


def _start_minio(program: Path, port: int, data: Path, user: str, password: str) -> subprocess.Popen[bytes]:
    settings = {
        "MINIO_ROOT_USER": user,
        "MINIO_ROOT_PASSWORD": password,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
    }
    os.environ.update(settings)
    return _start([program, "server", "--quiet", "--address", f"127.0.0.1:{port}", data])


def _start_gateway(port: int) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).parent / "tidelog"
    return _start([program, "serve", "--store", f"s3://{BUCKET}/dev", "--host", "127.0.0.1", "--port", str(port)])


def _check_free(port: int, option: str) -> None:
    """End with a remedy if another program has the port: it would be taken for ours."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            sys.exit(f"port {port} can't be had ({error.strerror}): make minio ARGS='{option} {port + 1}'")


def _start(command: list[str | Path]) -> subprocess.Popen[bytes]:
    """Start a process in its own session, so that Ctrl-C reaches only this program, which ends the processes in order."""
    return subprocess.Popen(command, start_new_session=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_until_alive(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    with urllib3.PoolManager(retries=False) as http:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                sys.exit(f"{process.args!r} ended by itself with status {process.returncode}")
            try:
                if http.request("GET", url, timeout=2).status == 200:
                    return
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.1)
    sys.exit(f"nothing answers at {url} after {START_SECONDS_MAX} s")


def _create_bucket() -> None:
    client = boto3.client("s3")
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)


def _explain(port: int, variables: dict[str, str]) -> None:
    url = f"http://127.0.0.1:{port}"
    print("\nFor programs that read the bucket themselves (Spark, deltalake, aws):")
    for name, value in variables.items():
        print(f"  export {name}={value}")
    print(f"\nThe gateway is at {url} (its API: {url}/docs), the topics are in s3://{BUCKET}/dev/topics/. Try:")
    print(f"""  curl -X POST {url}/v1/topics -H 'Content-Type: application/json' -d '{{"name": "greetings"}}'""")
    print(f"  curl -X POST {url}/v1/topics/greetings/records -H 'Content-Type: text/plain' -d hello")
    print(f"  curl '{url}/v1/topics/greetings/partitions/0/records?offset=earliest'")
    print("\nCtrl-C ends both.", flush=True)


if __name__ == "__main__":
    sys.exit(main())
