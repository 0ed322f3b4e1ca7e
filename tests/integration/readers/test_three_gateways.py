"""Streams beside three gateways that write and maintenance that rewrites what they wrote: every record, once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from spark_pipeline import stream_topic
from tests.support.gateway_process import StartGateway

PARTITIONS = 3
REQUESTS = 25
RECORDS = 20
SECONDS_MAX = 200

Place = tuple[int, int]


class Seen:
    """What a stream gave."""

    def __init__(self) -> None:
        self.records: list[tuple[Place, str]] = []

    def batch(self, rows: DataFrame, batch_id: int) -> None:
        columns = rows.selectExpr("partition", "offset", "cast(value as string) AS value").toArrow().to_pydict()
        places = zip(columns["partition"], columns["offset"], strict=True)
        self.records += zip(places, columns["value"], strict=True)


def produce(url: str, name: int, acknowledged: dict[Place, str], problems: list[str]) -> None:
    """Some requests, to one partition after the other; notes where the records are."""
    with urllib3.PoolManager(retries=False, timeout=60) as http:
        for number in range(REQUESTS):
            partition = (name + number) % PARTITIONS
            values = [f"{name}-{number}-{index}" for index in range(RECORDS)]
            answer = http.request(
                "POST",
                f"{url}/v1/topics/t/partitions/{partition}/records",
                body=json.dumps({"records": [{"key": value, "value": value} for value in values]}),
                headers={"Content-Type": "application/json"},
            )
            if answer.status != 200:
                problems.append(answer.data.decode())
                return
            base = answer.json()["partitions"][0]["base_offset"]
            acknowledged |= {(partition, base + index): value for index, value in enumerate(values)}


def wait_until_all(query: StreamingQuery, seen: Seen, count: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while len(seen.records) < count and time.monotonic() < deadline:
        failure = query.exception()
        if failure is not None:
            raise failure
        time.sleep(0.05)


@pytest.mark.timeout(500)
def test_a_stream_from_the_beginning_gives_every_record_once(
    spark: SparkSession,
    s3_uri: str,
    start_gateway: StartGateway,
    maintain: Callable[[str], Any],
    tmp_path: Path,
) -> None:
    """By ``format("tidelog")`` and by Delta alone, on MinIO, while three gateways write and segments are merged."""
    urls = [start_gateway(s3_uri).url for _ in range(3)]
    with urllib3.PoolManager(retries=False, timeout=60) as http:
        config = {"flush.ms": 20, "retention.ms": -1}
        body = json.dumps({"name": "t", "partition_count": PARTITIONS, "config": config})
        answer = http.request("POST", f"{urls[0]}/v1/topics", body=body, headers={"Content-Type": "application/json"})
        assert answer.status == 201, answer.data
    acknowledged: dict[Place, str] = {}
    problems: list[str] = []
    options = {"store": s3_uri, "subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "200"}
    streams = {
        "ours": spark.readStream.format("tidelog").options(**options).load(),
        "native": stream_topic(spark, s3_uri, "t", max_files_per_trigger=10),
    }
    producers = [
        threading.Thread(target=produce, args=(url, name, acknowledged, problems)) for name, url in enumerate(urls)
    ]
    queries: dict[str, tuple[StreamingQuery, Seen]] = {}
    merges = 0
    for producer in producers:
        producer.start()
    try:
        for name, records in streams.items():
            seen = Seen()
            writing = records.writeStream.foreachBatch(seen.batch).option("checkpointLocation", str(tmp_path / name))
            queries[name] = (writing.trigger(processingTime="0 seconds").start(), seen)
        while any(producer.is_alive() for producer in producers):
            merges += sum(event == "rewrite" for event, _ in maintain(s3_uri).events)
        merges += sum(event == "rewrite" for event, _ in maintain(s3_uri).events)
        assert problems == []
        for query, seen in queries.values():
            wait_until_all(query, seen, len(acknowledged))
    finally:
        for producer in producers:
            producer.join()
        for query, _ in queries.values():
            query.stop()
    assert len(acknowledged) == len(urls) * REQUESTS * RECORDS
    assert merges > 0
    for name, (_, seen) in queries.items():
        assert Counter(place for place, _ in seen.records) == Counter(acknowledged.keys()), name
        assert dict(seen.records) == acknowledged, name
    assert verify_topic(open_store(s3_uri), "t").problems == ()
