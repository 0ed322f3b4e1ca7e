"""Transactions of hundreds of MiB by a client of Kafka's: seen at the commit, in bounded memory, whole after a gateway's death.

``make large-transactions`` runs the one on MinIO with 2 GiB.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import deltalake
import pytest

from log_format.inspection.verify import verify_topic
from log_format.stores.local import LocalStore
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.large_transaction import PARTITIONS, VALUE_BYTES, check, send, send_all, transactional, visible

MEBIBYTE = 1 << 20
MEMORY_MAX = 320 * MEBIBYTE
"""Above what the gateway holds anyhow, during a commit of any size: two pieces of 32 MiB, several times."""
BATCHES = int(os.environ.get("TIDELOG_LARGE_BATCHES", "5200"))
"""More than one row of ``system/transactions`` may name by itself."""
ON_MINIO = int(os.environ.get("TIDELOG_LARGE_MEBIBYTES", "96"))


def committed(gateway: KafkaGateway, mebibytes: int) -> int:
    """Commit a transaction of so many MiB. Returns the gateway's memory at its peak meanwhile, above that before."""
    gateway.topic("t", PARTITIONS)
    producer = transactional(gateway)
    count = send(producer, "t", mebibytes)
    assert visible(gateway, "t") == [0] * PARTITIONS
    before, began = gateway.reset_peak(), time.monotonic()
    producer.commit_transaction()
    peak, seconds = gateway.peak_bytes() - before, time.monotonic() - began
    assert sum(visible(gateway, "t")) == count
    print(
        f"{mebibytes} MiB: committed in {seconds:.1f} s, {peak / MEBIBYTE:.0f} MiB of memory beyond {before / MEBIBYTE:.0f}"
    )
    check(gateway, "t", count)
    return peak


def test_a_commit_of_256_mebibytes_takes_no_more_memory_than_its_pieces(tmp_path: Path) -> None:
    """Nothing is visible before, all of it behind the answer."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        assert committed(gateway, 256) < MEMORY_MAX
    store = tmp_path / "store"
    report = verify_topic(LocalStore(store), "t")
    assert (report.problems, report.record_count) == ((), 256 * MEBIBYTE // VALUE_BYTES)
    table = deltalake.DeltaTable(str(store / "topics" / "t"))
    places = table.to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    found = {(one["partition"], one["offset"]) for one in places}
    assert len(places) == len(found) == report.record_count
    assert max(offset for _, offset in found) == report.record_count // PARTITIONS - 1


def test_on_minio(s3_uri: str, minio_environment: dict[str, str], tmp_path: Path) -> None:
    """The same, over S3's API."""
    with kafka_gateway(s3_uri, tmp_path / "log", environment=minio_environment) as gateway:
        assert committed(gateway, ON_MINIO) < MEMORY_MAX


def test_as_many_batches_commit(tmp_path: Path) -> None:
    """Each record is a batch of its own."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        gateway.topic("t", PARTITIONS)
        producer = transactional(gateway, **{"batch.num.messages": 1, "linger.ms": 0})
        send_all(producer, "t", (b"%d" % number for number in range(BATCHES)))
        before, began = gateway.reset_peak(), time.monotonic()
        producer.commit_transaction()
        peak, seconds = (gateway.peak_bytes() - before) / MEBIBYTE, time.monotonic() - began
        print(
            f"{BATCHES} batches: committed in {seconds:.1f} s, {peak:.0f} MiB of memory beyond {before / MEBIBYTE:.0f}"
        )
        assert sum(visible(gateway, "t")) == BATCHES


@pytest.mark.parametrize("after_s", [0.1, 0.4])
def test_a_gateway_that_dies_amid_the_commit_leaves_all_or_nothing(after_s: float, tmp_path: Path) -> None:
    """After its next start the transaction is whole, once, and the client's next one works."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        gateway.topic("t", PARTITIONS)
        producer = transactional(gateway)
        count = send(producer, "t", 96)
        committing = threading.Thread(target=producer.commit_transaction)
        committing.start()
        time.sleep(after_s)
        gateway.kill()
        gateway.start()
        while committing.is_alive():
            assert sum(visible(gateway, "t")) in (0, count), "a part of it is visible"
        committing.join()
        check(gateway, "t", count)
