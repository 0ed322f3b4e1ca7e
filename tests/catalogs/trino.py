"""Trino as a process, with the catalogs that a test names. ``scripts/catalogs.sh`` fetches it; it needs a Java of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import urllib3

from tests.support.server_process import ServerProcess, free_port
from tests.support.waiting import until

KEPT: Final = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog") / "catalogs"
"""Where ``scripts/catalogs.sh`` puts programs."""
TRINO: Final = KEPT / "trino-server-476"
JAVA_FOR_TRINO: Final = Path(os.environ.get("JAVA_FOR_TRINO", "/usr/lib/jvm/temurin-25-jdk-amd64"))
"""Trino 476 needs Java 24 or newer."""
START_SECONDS_MAX: Final = 500


def is_there() -> bool:
    """Whether Trino and its Java are there; prints what is missing if not."""
    if TRINO.is_dir() and JAVA_FOR_TRINO.is_dir():
        return True
    print(f"Trino is left out: it needs {TRINO} and a Java of its own, {JAVA_FOR_TRINO} (JAVA_FOR_TRINO)")
    return False


def s3_settings(endpoint_url: str) -> dict[str, str]:
    """Return the settings by which a catalog reads a bucket of a server of one's own."""
    return {
        "fs.native-s3.enabled": "true",
        "s3.endpoint": endpoint_url,
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


@contextmanager
def trino(directory: Path, catalogs: Mapping[str, Mapping[str, str]]) -> Iterator[ServerProcess]:
    """Run Trino until the block ends. ``catalogs``: settings by name. Files are in the directory."""
    port = free_port()
    place = directory / "trino"
    server = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "http-server.log.enabled": "false",
        "discovery.uri": f"http://127.0.0.1:{port}",
        "catalog.config-dir": str(place / "catalog"),
        "plugin.dir": str(TRINO / "plugin"),
    }
    (place / "catalog").mkdir(parents=True)
    for name, settings in catalogs.items():
        _write(place / "catalog" / f"{name}.properties", settings)
    _write(place / "config.properties", server)
    node = {"id": "one", "environment": "test", "internal-address": "127.0.0.1", "bind-ip": "127.0.0.1"}
    command = [str(JAVA_FOR_TRINO / "bin" / "java"), "-Xmx1500m", "-XX:TieredStopAtLevel=1"]
    command += [f"-Dnode.{name}={value}" for name, value in node.items()] + [f"-Dnode.data-dir={place / 'data'}"]
    command += [f"-Dconfig={place / 'config.properties'}", "-cp", f"{TRINO / 'lib'}/*", "io.trino.server.TrinoServer"]
    made = ServerProcess("Trino", command, port, "/v1/status", {}, directory / "trino.log")
    made.start()
    try:
        _until_started(made)
        yield made
    finally:
        made.kill()


def _until_started(server: ServerProcess) -> None:
    """Wait until statements are taken: the status is answered before."""
    until(lambda: not json.loads(urllib3.request("GET", f"{server.url}/v1/info").data)["starting"], START_SECONDS_MAX)


def _write(path: Path, settings: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
