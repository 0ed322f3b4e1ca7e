"""The stores on which gateways are measured, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks import processes
from benchmarks.slow_store import slowed

STORES: Final = ("directory", "minio", "minio-slow")
"""``minio-slow``: behind a proxy that makes each GET 20 ms and each PUT 40 ms slower (``benchmarks.slow_store``)."""


@dataclass(frozen=True, slots=True)
class Store:
    """An empty store. ``minio``: its process, where it has one."""

    uri: str
    environment: Mapping[str, str]
    """By which it is reached."""
    minio: processes.Server | None


@contextmanager
def store(name: str) -> Iterator[Store]:
    """One of ``STORES``, which is gone with the block."""
    with ExitStack() as running:
        if name == "directory":
            yield Store(running.enter_context(processes.directory()), {}, None)
            return
        uri, environment, minio = running.enter_context(processes.minio())
        if name == "minio-slow":
            port = running.enter_context(slowed(minio.port))
            environment = environment | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        yield Store(uri, environment, minio)
