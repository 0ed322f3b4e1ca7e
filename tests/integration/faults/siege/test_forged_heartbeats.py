"""An attacker that can write ``system/gateways/`` and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.attacks.insiders import forge_heartbeats
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.siege import besiege
from tests.support.waiting import eventually


def test_forged_heartbeats_cost_little_and_draw_nothing(tmp_path: Path, start_gateway: StartGateway) -> None:
    """A heartbeat of 1 GiB and 300 forged ones: memory and waits stay within the ceilings.

    Two gateways see each other and no third, so no request goes to an address that the attacker put there.
    """
    directory = tmp_path / "store" / "system" / "gateways"
    gateways = [start_gateway(str(tmp_path / "store"), "--heartbeat-ms", "200") for _ in range(2)]
    assert eventually(directory.is_dir)
    beats = [0]

    def seen(gateway: GatewayProcess) -> set[str]:
        return {one["url"] for one in gateway.http.get("/v1/cluster").json()["gateways"]}

    def attack() -> None:
        for _ in range(5):
            beats[0] += 1
            forge_heartbeats(directory, beats[0])
            time.sleep(0.2)

    besiege(gateways[0], attack)
    both = {gateway.url for gateway in gateways}
    assert eventually(lambda: all(seen(gateway) == both for gateway in gateways))
