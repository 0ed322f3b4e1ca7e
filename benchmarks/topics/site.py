"""The place of one measurement: a store, gateways of one tree on it that note their requests to it, and topics."""

from __future__ import annotations

import json
import tempfile
import time
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.harness import processes, trace
from benchmarks.harness.load import ask_all, request
from benchmarks.harness.pairs import commit_of
from benchmarks.harness.percentiles import Array
from benchmarks.harness.stores import store
from benchmarks.topics.relay import Relay, relay
from log_format.store import ObjectStore
from log_format.stores import open_store

DEFAULT_MODE: Final = "default"
"""No ``commit.mode`` is set: what a topic gets by itself."""
MODES: Final = (DEFAULT_MODE, "own", "shared", "auto")
CREATING_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is measured: the gateway of a tree, a store, and the topics' ``commit.mode``."""

    tree: Path
    store: str
    mode: str

    @property
    def tree_name(self) -> str:
        """The commit, with a plus if files differ from it."""
        return commit_of(self.tree)


@dataclass(frozen=True, slots=True)
class Gateway:
    """One gateway, and the file where it notes its requests to the store."""

    server: processes.Server
    trace: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the processes have taken so far."""

    at: float
    cpu_seconds: tuple[float, ...]
    """CPU seconds of each gateway."""
    store_cpu_seconds: float
    relayed_bytes: int
    relay_cpu_seconds: float


class Site:
    """Gateways on a store, running."""

    def __init__(
        self, run: Run, uri: str, gateways: list[Gateway], minio: processes.Server | None, between: Relay | None
    ) -> None:
        self.run = run
        self.uri = uri
        self.gateways = gateways
        self.between = between
        self._minio = minio

    @property
    def ports(self) -> tuple[int, ...]:
        """The port of each gateway."""
        return tuple(gateway.server.port for gateway in self.gateways)

    def make_topics(self, count: int, config: dict[str, object] | None = None) -> tuple[str, ...]:
        """Create topics of one partition in the run's mode. Raises ``RuntimeError`` when one is refused."""
        names = tuple(f"topic-{number:05}" for number in range(count))
        mode = {} if self.run.mode == DEFAULT_MODE else {"commit.mode": self.run.mode}
        settings = mode | (config or {})
        bodies = [json.dumps({"name": name, "partition_count": 1, "config": settings}) for name in names]
        form = {"Content-Type": "application/json"}
        requests = [request("POST", "/v1/topics", body.encode(), form) for body in bodies]
        statuses = ask_all(self.ports[0], requests, min(count, CREATING_CONNECTIONS))
        if set(statuses) != {201}:
            raise RuntimeError(f"topics were refused: {dict(statuses)}")
        return names

    def knows(self, setting: str, value: object) -> bool:
        """Return whether a topic may have this setting."""
        body = {"name": "probe", "partition_count": 1, "config": {setting: value}}
        try:
            processes.call(self.ports[0], "POST", "/v1/topics", body)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 400:
                raise
            return False
        processes.call(self.ports[0], "DELETE", "/v1/topics/probe")
        return True

    def sample(self) -> Sample:
        """Return what the processes have taken until now."""
        return Sample(
            at=time.monotonic(),
            cpu_seconds=tuple(gateway.server.cpu_seconds() for gateway in self.gateways),
            store_cpu_seconds=0.0 if self._minio is None else self._minio.cpu_seconds(),
            relayed_bytes=0 if self.between is None else self.between.bytes,
            relay_cpu_seconds=0.0 if self.between is None else self.between.cpu_seconds(),
        )

    def sample_at(self, at: float) -> Sample:
        """Return the same at a monotonic time that is still to come."""
        time.sleep(max(0.0, at - time.monotonic()))
        return self.sample()

    def asked(self, start: float, end: float) -> list[Array]:
        """Return each gateway's requests to the store that began in ``[start, end)``."""
        return [trace.between(trace.read(gateway.trace), start, end) for gateway in self.gateways]

    def rss_peak_mib(self) -> float:
        """Return the largest resident size of all gateways."""
        return max(gateway.server.rss_peak_bytes() for gateway in self.gateways) / 2**20


def committers(asked: Sequence[Array]) -> list[int]:
    """Return the successful commits of each gateway: to journals, or to topics if there are none."""
    owner = "journal" if any(len(trace.puts(rows, "commit", "journal")) for rows in asked) else "topic"
    return [int(trace.puts(rows, "commit", owner)["ok"].sum()) for rows in asked]


@contextmanager
def opened(run: Run, count: int = 1, settings: Sequence[str] = (), *, is_relayed: bool = False) -> Iterator[Site]:
    """Run gateways on an empty store.

    Args:
        run: the measured tree, the store and the topics' mode.
        count: the number of gateways.
        settings: options of each; it has defaults for all others.
        is_relayed: whether a relay between them counts what they send each other.
    """
    with ExitStack() as running:
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-topics-")))
        place = running.enter_context(store(run.store))
        uri = place.uri
        ports = [processes.free_port() for _ in range(count)]
        between = running.enter_context(relay(ports)) if is_relayed else None
        site = Site(run, uri, [], place.minio, between)
        for number, port in enumerate(ports):
            told = list(settings)
            if between is not None:
                told += ["--advertised-url", f"http://127.0.0.1:{between.ports[number]}"]
            notes = scratch / f"trace-{number}"
            server = processes.noting_gateway(uri, notes, port, told, place.environment, run.tree)
            running.callback(server.stop)
            site.gateways.append(Gateway(server, notes))
        if count > 1:
            processes.meet([gateway.server for gateway in site.gateways])
        running.enter_context(place.reached())
        yield site


def store_of(site: Site) -> ObjectStore:
    """Return the site's store, for the measuring process."""
    return open_store(site.uri)
