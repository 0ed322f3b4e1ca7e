"""Reading of the topic in two ways without Spark: over HTTP, and from the store by deltalake."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable

from log_format.layout import topic_root
from tidelog.consumer.consumer import Consumer
from tidelog.demo.summary import Summary, summarize

SILENCE_SECONDS_MAX: Final = 60
"""Time for which the gateway may return nothing although there is more to read."""

POLL_MS: Final = 1_000

COLUMNS: Final = ["partition", "offset", "timestamp", "key", "value"]


def read_http(url: str, topic: str) -> Summary:
    """Return the summary of all records up to each partition's current end, read by the SDK's consumer.

    Raises the SDK's errors, and ``TimeoutError`` when the gateway stops returning records before the end.
    """
    total = Summary()
    heard = time.monotonic()
    with Consumer(topic, bootstrap_servers=url) as consumer:
        ends = consumer.end_offsets(consumer.assignment())
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            records = consumer.poll_arrow(POLL_MS)
            if records.num_rows:
                total += summarize(records)
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_SECONDS_MAX:
                raise TimeoutError(
                    f"the gateway returned {total.count:,} records and then none for {SILENCE_SECONDS_MAX} s"
                )
    return total


def read_delta(store: str, topic: str) -> Summary:
    """Return the summary of all records in the topic's newest version, read by deltalake straight from the store."""
    table = DeltaTable(_table_uri(store, topic), storage_options=_storage_options(store))
    total = Summary()
    for batch in table.to_pyarrow_dataset().to_batches(columns=COLUMNS):
        total += summarize(batch)
    return total


def _table_uri(store: str, topic: str) -> str:
    below = topic_root(topic).rstrip("/")
    if store.startswith("s3://"):
        return f"{store.rstrip('/')}/{below}"
    directory = unquote(urlsplit(store).path) if store.startswith("file:") else store
    return str(Path(directory).absolute() / below)


def _storage_options(store: str) -> dict[str, str]:
    """Return the settings that deltalake does not read from the environment itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if store.startswith("s3://") and endpoint:
        return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
    return {}
