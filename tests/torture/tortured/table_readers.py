"""Topics' tables as Iceberg's and Delta Sharing's own clients read them by name: while everything goes on, and at the end.

A gateway that is killed or frozen, or a store that does not answer, ends a look; it is counted, and judges nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from delta_sharing.protocol import DeltaSharingProfile
from delta_sharing.protocol import Table as SharedTable
from delta_sharing.reader import DeltaSharingReader
from delta_sharing.rest_client import DataSharingRestClient
from deltalake import DeltaTable
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from log_format.iceberg.data_file import snapshot_id
from tests.support.iceberg_reader import iceberg_catalog, version_of
from tests.support.shared_tables import COLUMNS, crc
from tests.torture.tortured.checker import Log
from tests.torture.tortured.clients import Client, start
from tests.torture.tortured.service import STORE, Service

AS_OF: Final = "tidelog.complete-until-ms"
SHOWN_MAX: Final = 20
REST_SECONDS_MAX: Final = 120


class TableReaders:
    """One reader of one table after another, each at any of the gateways. ``pace_seconds``: between two looks, on average."""

    def __init__(self, client: Client, service: Service, topics: Mapping[str, int], pace_seconds: float) -> None:
        self._client = client
        self._service = service
        self._topics = list(topics)
        self._pace_seconds = pace_seconds
        self._contradictions: list[str] = []
        self._thread: threading.Thread | None = None
        self.counts: Counter[str] = Counter()

    def start(self, failures: list[str]) -> None:
        """Look from now on, until the client is stopped."""
        self._thread = start(lambda _client: self._run(), self._client, failures=failures)

    def judged(self) -> list[str]:
        """Wait for the last look; what is wrong, in words."""
        if self._thread is not None:
            self._thread.join(REST_SECONDS_MAX)
        return self._contradictions

    def _run(self) -> None:
        client = self._client
        while not client.stopping.wait(client.rng.uniform(0, 2 * self._pace_seconds)):
            topic, url = client.rng.choice(self._topics), client.rng.choice(self._service.urls)
            try:
                found = self._look(topic, url)
            except Exception:  # noqa: BLE001 - whatever a client says of a service that is down
                self.counts["tables: not answered"] += 1
                continue
            self.counts["tables: compared"] += 1
            if found is not None and len(self._contradictions) < SHOWN_MAX:
                self._contradictions.append(f"table of {topic}: {found}")

    def _look(self, topic: str, url: str) -> str | None:
        """Read a table by each client at one version; what is wrong, in words."""
        acknowledged = self._acknowledged(topic)
        table = _catalog(url, self._service).load_table(("topics", topic))
        version = version_of(table)
        found = {
            "deltalake": _crc(by_delta(topic, self._service, version).column),
            "Iceberg": _crc(table.scan(snapshot_id=snapshot_id(version)).to_arrow().column),
            "Iceberg, planned by the gateway": _crc(
                _planned(url, self._service, topic).scan(snapshot_id=snapshot_id(version)).to_arrow().column
            ),
            "Delta Sharing": _crc(by_sharing(topic, url, version)),
        }
        if len(set(found.values())) > 1:
            return f"at version {version} there are {found}"
        count = found["deltalake"][0]
        if count < acknowledged and AS_OF not in table.properties:
            return f"version {version} was loaded after {acknowledged} records were acknowledged, and has {count}"
        return None

    def _acknowledged(self, topic: str) -> int:
        written = [one for one in tuple(self._client.history.writes) if one.outcome == "acknowledged"]
        return sum(len(values) for one in written for values in one.values.get(topic, {}).values())


def by_table_readers(service: Service, topics: Mapping[str, int]) -> dict[str, Log]:
    """The final topics, as either client reads them."""
    url = service.urls[0]
    return {
        "Iceberg": _log(lambda topic: _planned(url, service, topic).scan().to_arrow().column, topics),
        "Delta Sharing": _log(lambda topic: by_sharing(topic, url, None), topics),
    }


def by_delta(topic: str, service: Service, version: int) -> pa.Table:
    """The rows that deltalake reads at a version, without Tidelog."""
    return DeltaTable(
        f"{STORE}/topics/{topic}", version=version, storage_options=service.environment
    ).to_pyarrow_table()


def by_sharing(topic: str, url: str, version: int | None) -> Callable[[str], Any]:
    """The columns that Delta Sharing's client reads, by their names. It does not try again."""
    profile = DeltaSharingProfile(1, f"{url}/delta-sharing", "any")
    client = DataSharingRestClient(profile, num_retries=0)
    frame = DeltaSharingReader(SharedTable(topic, "tidelog", "topics"), client, version=version).to_pandas()
    return lambda name: pa.Array.from_pandas(frame[name])


def _catalog(url: str, service: Service, **more: str) -> RestCatalog:
    environment = service.environment
    return iceberg_catalog(
        url,
        **{
            "s3.endpoint": environment["AWS_ENDPOINT_URL"],
            "s3.access-key-id": environment["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": environment["AWS_SECRET_ACCESS_KEY"],
            "s3.region": environment["AWS_REGION"],
        },
        **more,
    )


def _planned(url: str, service: Service, topic: str) -> Table:
    found: Table = _catalog(url, service, **{"scan-planning-mode": "server"}).load_table(("topics", topic))
    return found


def _crc(column: Callable[[str], Any]) -> tuple[int, int]:
    """Number of rows, and their checksum."""
    return crc({name: column(name).to_pylist() for name in COLUMNS})


def _log(columns_of: Callable[[str], Callable[[str], Any]], topics: Mapping[str, int]) -> Log:
    log: Log = {(topic, partition): [] for topic, count in topics.items() for partition in range(count)}
    for topic in topics:
        column = columns_of(topic)
        rows = zip(*(column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True)
        for partition, offset, value in sorted(rows):
            values = log[topic, partition]
            if offset != len(values):
                raise AssertionError(f"{topic}/{partition} has {offset} where {len(values)} should be")
            values.append(value.decode())
    return log
