"""An attacker who can write ``system/gateways/`` and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.siege import besiege
from tests.support.waiting import eventually

pytestmark = pytest.mark.processes

LARGE_BYTES = 1 << 30
FORGED = 300


def test_forged_heartbeats_cost_little_and_draw_nothing(
    tmp_path: Path, start_gateway: Callable[..., GatewayProcess]
) -> None:
    """A heartbeat of 1 GiB and 300 forged ones: memory and waits stay within the ceilings, two gateways see each other and nobody
    else, so that no request goes to an address that was put there."""
    directory = tmp_path / "store" / "system" / "gateways"
    gateways = [start_gateway(str(tmp_path / "store"), "--heartbeat-ms", "200") for _ in range(2)]
    assert eventually(directory.is_dir)
    beats = [0]

    def seen(gateway: GatewayProcess) -> set[str]:
        return {one["url"] for one in gateway.http.get("/v1/cluster").json()["gateways"]}

    def attack() -> None:
        with (directory / "large.json").open("wb") as file:
            file.truncate(LARGE_BYTES)
        for _ in range(5):
            beats[0] += 1
            for name in (f"{letter}{number:03d}" for letter in "0z" for number in range(FORGED // 2)):
                heartbeat = {"id": name, "instance": "x", "beat": beats[0], "url": "http://127.0.0.1:1", "started_at": 0,
                             "version": "1", "owned_topics": 0}  # fmt: skip
                (directory / f"{name}.json").write_text(json.dumps(heartbeat))
            time.sleep(0.2)

    besiege(gateways[0], attack)
    both = {gateway.url for gateway in gateways}
    assert eventually(lambda: all(seen(gateway) == both for gateway in gateways))
