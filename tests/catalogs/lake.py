"""A bucket on MinIO, a gateway with ``auth=on`` that gives credentials for it, and a topic that is written all the time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable

from tests.catalogs.programs.rows import Digest, digest
from tests.support.iceberg_reader import iceberg_catalog, version_of
from tests.support.minio import Minio
from tests.support.repeatedly import repeatedly
from tests.support.secured import Secured, secured_gateway

ROLE: Final = "arn:aws:iam::123456789012:role/vended"
USER: Final = "User:engines"
PAUSE_S: Final = 0.5
"""Between two requests: engines read each segment by requests of their own, and there should be some hundred at most."""


@dataclass(frozen=True, slots=True)
class Lake:
    """``topic``: has two partitions; ``token``: of a caller that may read it, and has no role on the bucket."""

    minio: Minio
    secured: Secured
    store: str
    topic: str
    token: str
    sent: list[int]
    """Number of records that are acknowledged, its only element."""

    def looked(self) -> tuple[int, Digest]:
        """Load the table; return the version that is its newest snapshot, and what deltalake reads there.

        Raises ``AssertionError`` if a record is missing that was acknowledged before.
        """
        acknowledged = self.sent[0]
        table = iceberg_catalog(self.secured.url, token=self.token).load_table(("topics", self.topic))
        version = version_of(table)
        found = self.by_delta(version)
        assert found.row_count >= acknowledged, f"version {version} has {found.row_count} of {acknowledged} records"
        return version, found

    def by_delta(self, version: int) -> Digest:
        """Return what deltalake reads in the bucket at a version, by credentials of its own."""
        return by_delta(self.minio, f"{self.store}/topics/{self.topic}", version)


def by_delta(
    minio: Minio, table: str, version: int, value_of: Callable[[Mapping[str, Any]], Any] | None = None
) -> Digest:
    """Return what deltalake reads in a bucket at a version of a table. ``value_of``: what counts as a row's value."""
    rows = DeltaTable(table, version=version, storage_options=minio.environment()).to_pyarrow_table().to_pylist()
    take = value_of or operator.itemgetter("value")
    return digest((row["partition"], row["offset"], row["timestamp"], row["key"], take(row)) for row in rows)


@contextmanager
def lake(directory: Path) -> Iterator[Lake]:
    """Until the block ends. Files are in the directory."""
    minio = Minio(directory)
    store = f"s3://{minio.create_bucket()}/log"
    settings = ("--vending-role-arn", ROLE)
    try:
        with secured_gateway(directory, *settings, store=store, environment=minio.environment()) as (secured, _):
            topic = secured.topic(2)
            secured.allow(USER, "Read", "topic", topic)
            made = Lake(minio, secured, store, topic, str(secured.token(USER)["token"]), [0])
            with _producer(made):
                yield made
    finally:
        minio.kill()


@contextmanager
def _producer(made: Lake) -> Iterator[None]:
    errors = list[str]()

    def produce() -> None:
        number = made.sent[0]
        records: list[dict[str, Any]] = [{"key": f"k{number}", "value": f"v{number}"}, {"value": f"w{number}"}]
        answer = made.secured.admin.http.post(f"/v1/topics/{made.topic}/records", json={"records": records})
        if answer.is_success:
            made.sent[0] += len(records)
        else:
            errors.append(answer.text)

    with repeatedly(produce, PAUSE_S):
        yield
    assert not errors, errors
