"""A topic that is deleted and made anew while clients work on it, at a gateway with a planted fault: the judge finds it.

A gateway without one is judged in each run of ``tests/torture/test_torture.py``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway
from tests.support.waiting import eventually
from tests.torture.tortured.renewed_run import RenewedTopic

PLANTED = Path(__file__).with_name("planted_renewed")
SECONDS = 4.0
COMMITS = 20

pytestmark = pytest.mark.timeout(300)


def test_a_gateway_that_believes_old_offsets_is_found(tmp_path: Path) -> None:
    """Readers that name the topic of their offset miss the first records of the next one; a group has one of a former topic."""
    environment = {"PYTHONPATH": str(PLANTED)}
    with running_gateway(tmp_path / "store", tmp_path / "log", environment=environment) as gateway:
        failures: list[str] = []
        renewed = RenewedTopic([gateway.url], 3, {"flush.ms": 20}, 0.8, "", failures, rest_seconds=0)
        renewed.start(pace_seconds=0.1)
        time.sleep(SECONDS)
        assert eventually(lambda: renewed.counts().get("renewed: offset by id yes", 0) >= COMMITS, 90)
        found = renewed.judged(end_seconds=1)
    assert failures == []
    wrong = [line.partition(",")[0] for line in found if "asked for" in line and "got offsets" in line]
    assert {"reader-by-id-0", "streams"} <= set(wrong), found[:20]
    assert [line for line in found if line.startswith("renewed-by-id has the offset") and "was not there" in line]
