"""G1 and G3 by the hard way: a real gateway is killed while producers send, again and again."""

from __future__ import annotations

import random
import time

import pytest

from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.support.gateway_process import StartGateway
from tests.support.senders import Senders, check_log

PRODUCERS = 8
KILLS = 8
"""``make torture`` kills for longer."""
PARTITIONS = 4

pytestmark = pytest.mark.timeout(600)


def test_killed_again_and_again_every_acknowledged_record_is_there_once(
    store_uri: str, start_gateway: StartGateway
) -> None:
    """G1, G2, G3, G8: each acknowledged record is at its offset, once; offsets are dense; nothing refused appears."""
    gateway = start_gateway(store_uri)
    gateway.topic("log", PARTITIONS, flush_ms=20)
    senders = Senders([gateway.url], "log", PARTITIONS, PRODUCERS)
    senders.start()
    rng = random.Random(20)
    acknowledged_at_kill = []
    try:
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.1, 0.5))
            gateway.kill()
            acknowledged_at_kill.append(senders.acknowledged_since(0))
            gateway.start()
        time.sleep(0.5)
    finally:
        sent = senders.stop()
    gateway.kill()
    gateway.start()
    check_log([gateway.read("log", partition) for partition in range(PARTITIONS)], sent)
    # The kills met traffic, or this proved nothing.
    assert len(set(acknowledged_at_kill)) >= KILLS // 3
    assert len({one.values[0].partition("-")[0] for one in sent if one.status == 200}) == PRODUCERS
    assert gateway.end() == 0
    report = verify_topic(open_store(store_uri), "log")
    assert report.ok, report.problems
