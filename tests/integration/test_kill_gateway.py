"""G1 and G3 by the hard way: a real gateway is killed while producers send, again and again."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import urllib3

from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.support.gateway_process import GatewayProcess

PRODUCERS = 8
KILLS = 8
"""``make torture`` kills for longer."""
PARTITIONS = 4
RECORDS_PER_REQUEST = 5

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@dataclass(slots=True)
class Sent:
    """What one producer saw: acknowledged values with their places, and values whose answer never came."""

    acknowledged: dict[str, tuple[int, int]] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


def _produce(url: str, name: int, sent: Sent, stopping: threading.Event) -> None:
    rng = random.Random(name)
    sequence = 0
    with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=2, read=30)) as http:
        while not stopping.is_set():
            partition = rng.randrange(PARTITIONS)
            values = [f"{name}-{sequence + i:08d}" for i in range(RECORDS_PER_REQUEST)]
            sequence += RECORDS_PER_REQUEST
            body = json.dumps({"records": [{"value": value} for value in values]})
            try:
                answer = http.request(
                    "POST",
                    f"{url}/v1/topics/log/partitions/{partition}/records",
                    body=body,
                    headers={"Content-Type": "application/json"},
                )
            except urllib3.exceptions.NewConnectionError:
                sent.refused.update(values)
                time.sleep(0.1)  # what waits here takes no time from the gateway that starts
                continue
            except urllib3.exceptions.HTTPError:
                sent.doubtful.update(values)
                continue
            if answer.status == 200:
                base = answer.json()["partitions"][0]["base_offset"]
                sent.acknowledged |= {value: (partition, base + i) for i, value in enumerate(values)}
            elif answer.json()["may_have_happened"]:
                sent.doubtful.update(values)
            else:
                sent.refused.update(values)


def _read(url: str, partition: int) -> list[tuple[int, str]]:
    records: list[tuple[int, str]] = []
    offset = 0
    with urllib3.PoolManager(retries=False) as http:
        while True:
            path = f"{url}/v1/topics/log/partitions/{partition}/records?offset={offset}&max_records=10000"
            answer = http.request("GET", path).json()
            records += [(record["offset"], record["value"]) for record in answer["records"]]
            offset = answer["next_offset"]
            if offset == answer["high_watermark"]:
                return records


def test_killed_again_and_again_every_acknowledged_record_is_there_once(store_uri: str, tmp_path: Path) -> None:
    """G1, G2, G3, G8: each acknowledged record is at its offset, once; offsets are dense; nothing refused appears."""
    gateway = GatewayProcess(store_uri, tmp_path / "gateway.log")
    with urllib3.PoolManager(retries=False) as http:
        topic = {"name": "log", "partition_count": PARTITIONS, "config": {"flush.ms": 20}}
        assert http.request("POST", f"{gateway.url}/v1/topics", json=topic).status == 201
    stopping = threading.Event()
    sent = [Sent() for _ in range(PRODUCERS)]
    threads = [
        threading.Thread(target=_produce, args=(gateway.url, name, sent[name], stopping)) for name in range(PRODUCERS)
    ]
    for thread in threads:
        thread.start()
    rng = random.Random(20)
    acknowledged_at_kill = []
    try:
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.1, 0.5))
            gateway.kill()
            acknowledged_at_kill.append(sum(len(one.acknowledged) for one in sent))
            gateway.start()
        time.sleep(0.5)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    gateway.kill()
    gateway.start()

    stored = {partition: _read(gateway.url, partition) for partition in range(PARTITIONS)}
    places = {(partition, offset): value for partition, records in stored.items() for offset, value in records}
    for records in stored.values():
        assert [offset for offset, _ in records] == list(range(len(records)))
    for one in sent:
        for value, place in one.acknowledged.items():
            assert places[place] == value
    times = Counter(places.values())
    assert max(times.values()) == 1
    assert not times.keys() & set().union(*(one.refused for one in sent))
    assert times.keys() <= set().union(*(one.acknowledged.keys() | one.doubtful for one in sent))
    for records in stored.values():
        for name in range(PRODUCERS):
            own = [value for _, value in records if value.startswith(f"{name}-")]
            assert own == sorted(own)
    # The kills met traffic, or this proved nothing.
    assert len(set(acknowledged_at_kill)) > KILLS // 2
    assert all(one.acknowledged for one in sent)
    assert gateway.end() == 0
    report = verify_topic(open_store(store_uri), "log")
    assert report.ok, report.problems
