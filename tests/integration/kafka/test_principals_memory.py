"""What one principal's producers may hold of a gateway's memory: others are served beside them."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.support.access import bootstrap_file
from tests.support.kafka_frames import Wire, framed, log_in
from tests.support.kafka_gateway import kafka_gateway
from tests.support.secured import Secured
from tests.support.waiting import eventually

MEBIBYTE = 1 << 20
HOARDED = 8
"""Batches of half a mebibyte, each with a copy: more than the gateway has room for."""
FLUSH_MS = 8_000


def _batch(size: int) -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    batch.append(0, int(time.time() * 1000), None, b"x" * size, [])
    return bytes(batch.build())


def _produce(topic: str, batch: bytes) -> dict[str, Any]:
    data = {"name": topic, "partition_data": [{"index": 0, "records": batch}]}
    return {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": [data]}


def test_a_principal_that_fills_its_share_holds_up_no_other(tmp_path: Path) -> None:
    """Its batches wait for a flush that comes late, and hold memory meanwhile; those beyond its share wait in turn. Another
    principal's batch is answered before that flush."""
    path, first = bootstrap_file(tmp_path)
    bounds = ("--in-flight-bytes-max", str(4 * MEBIBYTE), "--request-bytes-max", str(2 * MEBIBYTE))
    settings = ("--auth", "on", "--bootstrap-token-file", str(path), "--flush-savings-max-ms", "0", *bounds)
    with kafka_gateway("memory://memory", tmp_path / "log", *settings) as gateway:
        secured = Secured(gateway.url, first)
        late, soon = secured.admin.topic(flush_ms=FLUSH_MS, flush_bytes=64 * MEBIBYTE), secured.admin.topic()
        tokens = {}
        for topic in (late, soon):
            principal, _ = secured.user()
            secured.allow(principal, "Write", "topic", topic)
            tokens[topic] = secured.token(principal)["token"]
        with Wire(gateway.kafka) as hoarder, Wire(gateway.kafka) as other:
            assert log_in(hoarder, tokens[late]).error_code == 0
            assert log_in(other, tokens[soon]).error_code == 0
            one = framed("produce", 9, hoarder.correlate(), **_produce(late, _batch(MEBIBYTE // 2)))
            began = time.monotonic()
            sending = threading.Thread(target=_send, args=(hoarder, one * HOARDED))
            sending.start()
            assert eventually(lambda: MEBIBYTE // 2 <= _held(secured) == _held(secured, 0.5))
            answer = other.call("produce", 9, **_produce(soon, _batch(1000)))
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert time.monotonic() - began < FLUSH_MS / 1000, "it waited for the other principal's flush"
            (part,) = hoarder.answer("produce", 9).responses[0].partition_responses
            assert part.error_code == 0
        sending.join()
        secured.close()


def _send(wire: Wire, data: bytes) -> None:
    with contextlib.suppress(OSError):
        wire.send(data)


def _held(secured: Secured, after_seconds: float = 0) -> float:
    time.sleep(after_seconds)
    lines = secured.admin.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("tidelog_request_memory_bytes "))
