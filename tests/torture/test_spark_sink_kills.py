"""Spark's sink under kill -9 of its driver and of gateways: source -> sink -> Delta, every input once (G5, G6).

``python tests/torture --spark`` is the long run, and with ``--planted`` the one that must fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.tortured.driver_run import Plan, torture_drivers
from tests.torture.tortured.spark_sink_run import SparkSinkRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_every_input_once(tmp_path: Path) -> None:
    """A driver killed behind a batch's decision, before Spark's note of it, and gateways at any time: each input once."""
    outcome = torture_drivers(SparkSinkRun, Plan(restarts=1, seed=7), tmp_path)
    assert outcome.contradictions == []
    assert outcome.counts["records compared"] == 8 * outcome.counts["records"]
