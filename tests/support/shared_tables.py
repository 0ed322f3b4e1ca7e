"""Topics as tables of Delta Sharing: what its own client and plain requests get, and what a Delta reader finds there."""

from __future__ import annotations

import json
import secrets
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import delta_sharing
import httpx
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.clock import SystemClock
from log_format.stores import open_store
from tests.support.collected_events import CollectedEvents
from tests.support.gateway_process import GatewayProcess
from tests.support.http_api import Json
from tests.support.secured import Secured, secured_gateway

TABLES = "/delta-sharing/shares/tidelog/schemas/topics/tables"
COLUMNS = ("partition", "offset", "timestamp", "key", "value")
READ, DESCRIBE = ("Read", "topic"), ("Describe", "topic")


def crc(columns: Mapping[str, list[Any]]) -> tuple[int, int]:
    """Number of rows, and a checksum of them that their order does not change."""
    rows = sorted(zip(*(columns[name] for name in COLUMNS), strict=True), key=lambda row: row[:2])
    return len(rows), zlib.crc32(repr(rows).encode())


class SharedTables:
    """A gateway with ``auth=on`` on a store, one caller that may read all topics, and Delta Sharing's client with its token."""

    def __init__(
        self, secured: Secured, gateway: GatewayProcess, directory: Path, options: Mapping[str, str] | None = None
    ) -> None:
        self.secured, self.gateway, self.directory, self._options = secured, gateway, directory, dict(options or {})
        self.token_id, self.caller, self.http, self.profile = self.reader((*READ, "*"), (*DESCRIBE, "*"))

    def reader(self, *rights: tuple[str, str, str]) -> tuple[str, str, httpx.Client, str]:
        """A caller with these rights: its token's id, its principal, its HTTP, and its profile file."""
        principal = f"User:u-{secrets.token_hex(6)}"
        made = self.secured.token(principal)
        for right in rights:
            self.secured.allow(principal, *right)
        profile = self.directory / f"{secrets.token_hex(6)}.share"
        endpoint = f"{self.secured.url}/delta-sharing/"
        profile.write_text(
            json.dumps({"shareCredentialsVersion": 1, "endpoint": endpoint, "bearerToken": made["token"]})
        )
        return made["id"], principal, self.secured.client(made["token"]), str(profile)

    def topic(self, partition_count: int = 1, **config: Any) -> str:
        """A new topic; settings with underscores for dots."""
        name = f"t-{secrets.token_hex(6)}"
        settings = {key.replace("_", "."): value for key, value in {"flush.ms": 1, **config}.items()}
        body = {"name": name, "partition_count": partition_count, "config": settings}
        answer = self.secured.admin.http.post("/v1/topics", json=body)
        assert answer.status_code == 201, answer.text
        return name

    def produce(self, topic: str, *values: str) -> None:
        """In one request."""
        records = [{"key": f"k-{value}", "value": value} for value in values]
        answer = self.secured.admin.http.post(f"/v1/topics/{topic}/records", json={"records": records})
        assert answer.status_code == 200, answer.text

    def ask(self, topic: str, body: Json | None = None, client: httpx.Client | None = None) -> httpx.Response:
        """The answer to a query."""
        return (client or self.http).post(f"{TABLES}/{topic}/query", json=body or {})

    def lines(self, topic: str, body: Json | None = None, kind: str = "file") -> list[Json]:
        """Lines of one kind of a query's answer."""
        answer = self.ask(topic, body)
        assert answer.status_code == 200, answer.text
        found = [json.loads(line) for line in answer.text.splitlines()]
        return [line[kind] for line in found if kind in line]

    def version(self, topic: str) -> int:
        """The table's newest version."""
        answer = self.http.get(f"{TABLES}/{topic}/version")
        assert answer.status_code == 200, answer.text
        return int(answer.headers["delta-table-version"])

    def by_client(self, topic: str, **options: Any) -> tuple[int, int]:
        """What Delta Sharing's client reads."""
        frame = delta_sharing.load_as_pandas(f"{self.profile}#tidelog.topics.{topic}", **options)
        return crc({name: pa.Array.from_pandas(frame[name]).to_pylist() for name in COLUMNS})

    def by_delta(self, topic: str, version: int) -> tuple[int, int]:
        """What deltalake reads at the version, from the store."""
        uri = f"{self.gateway.store}/topics/{topic}"
        table = DeltaTable(uri, version=version, storage_options=self._options).to_pyarrow_table()
        return crc({name: table.column(name).to_pylist() for name in COLUMNS})

    def maintain(self, *, collect: bool = False) -> None:
        """A round over the store, which merges nothing. ``collect``: it deletes unneeded files, too."""
        store = open_store(self.gateway.store)
        job = Job(
            store=store,
            workers=LocalWorkers(store),
            clock=SystemClock(),
            report=CollectedEvents(),
            policy=Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**15),
            new_id=lambda: uuid.uuid4().hex,
        )
        assert job.run_round(collect=collect).failed_topics == 0

    def read(self, url: str) -> pa.Table:
        """The file at a URL, without a credential."""
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code == 200, answer.text
        return pa.parquet.read_table(pa.BufferReader(answer.content))


def values_of(table: pa.Table) -> list[str]:
    """The values as texts."""
    return [str(value) for value in pc.cast(table.column("value"), pa.string()).to_pylist()]


@contextmanager
def shared_tables(
    directory: Path, store: str | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[SharedTables]:
    """Until the block ends."""
    with secured_gateway(directory, store=store, environment=environment) as (secured, gateway):
        options = {} if environment is None else {**environment, "AWS_ALLOW_HTTP": "true"}
        yield SharedTables(secured, gateway, directory, options)
