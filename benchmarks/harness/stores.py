"""The stores on which gateways are measured, by name."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest import mock

from benchmarks.harness.processes import Server, free_port, running
from benchmarks.harness.slow_store import slowed
from log_format.store import ObjectStore
from log_format.stores import open_store

STORES: Final = ("directory", "minio", "minio-slow")
"""``minio-slow``: behind a proxy that makes each GET 20 ms and each PUT 40 ms slower (``slow_store``)."""
_LABELS: Final = {"directory": "directory store", "minio": "MinIO", "minio-slow": "slow MinIO"}
_KEYS: Final = {"ID": "tidelog", "SECRET": "tidelog-local"}


@dataclass(frozen=True, slots=True)
class Store:
    """An empty store. ``minio``: its process, where it has one."""

    name: str
    uri: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables by which the store is reached."""
    minio: Server | None = None

    @property
    def label(self) -> str:
        """How titles of tables name it."""
        return _LABELS[self.name]

    @property
    def servers(self) -> Sequence[Server]:
        """The processes whose CPU is the store's."""
        return () if self.minio is None else (self.minio,)

    def reached(self) -> AbstractContextManager[object]:
        """Let this process reach the store in the block."""
        return mock.patch.dict(os.environ, self.environment)

    def opened(self) -> ObjectStore:
        """Return the store, for this process."""
        with self.reached():
            return open_store(self.uri)


@contextmanager
def store(name: str) -> Iterator[Store]:
    """Make one of ``STORES``, which is gone with the block."""
    with ExitStack() as started:
        if name == "directory":
            yield Store(name, started.enter_context(directory()))
            return
        minio = started.enter_context(_minio())
        port = minio.port
        if name == "minio-slow":
            port = started.enter_context(slowed(minio.port))
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": _KEYS["ID"],
            "AWS_SECRET_ACCESS_KEY": _KEYS["SECRET"],
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        yield Store(name, "s3://bench/log", environment, minio)


def each(names: Sequence[str]) -> Iterator[Store]:
    """Make one store after the other; each is gone when the next one is asked for."""
    for name in names:
        with store(name) as place:
            yield place


@contextmanager
def directory() -> Iterator[str]:
    """Make an empty directory, and give its URI."""
    path = tempfile.mkdtemp(prefix="tidelog-bench-")
    try:
        yield f"file://{path}"
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _minio() -> Iterator[Server]:
    """Run a MinIO server with an empty bucket."""
    cache = Path(os.environ.get("TIDELOG_CACHE", Path.home() / ".cache" / "tidelog"))
    path = tempfile.mkdtemp(prefix="tidelog-bench-minio-")
    port = free_port()
    environment = {
        "MINIO_ROOT_USER": _KEYS["ID"],
        "MINIO_ROOT_PASSWORD": _KEYS["SECRET"],
        "MINIO_BROWSER": "off",
        "MINIO_PROMETHEUS_AUTH_TYPE": "public",
    }
    command = [str(cache / "bin" / "minio"), "server", path, "--address", f"127.0.0.1:{port}", "--quiet"]
    try:
        with running(Server(command, port, "/minio/health/cluster", environment)) as server:
            (Path(path) / "bench").mkdir()
            yield server
    finally:
        shutil.rmtree(path, ignore_errors=True)
