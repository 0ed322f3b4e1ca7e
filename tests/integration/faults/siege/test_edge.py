"""Connections that do nothing: operators see the gateway whatever clients do to it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import httpx
import pytest

from tests.support.attacks.connections import HALF_A_HEAD, half_requests
from tests.support.gateway_process import StartGateway
from tests.support.siege import besiege
from tests.support.waiting import eventually


def test_probes_are_answered_whatever_clients_do(start_gateway: StartGateway, tmp_path: Path) -> None:
    """Thousands of connections with half a request each, and event streams: probes and metrics are answered at once."""
    gateway = start_gateway(str(tmp_path), "--ops-port", "0")
    topic = gateway.topic("t")

    def attack() -> None:
        with half_requests(gateway, f"/v1/topics/{topic}/partitions/0/records"):
            time.sleep(0.5)
            with pytest.raises(httpx.HTTPError):
                # The clients' own listener is full; that is what the other one is for.
                httpx.get(f"{gateway.url}/healthz", timeout=1, trust_env=False).raise_for_status()
            for path in ("/readyz", "/metrics", "/v1/cluster"):
                assert httpx.get(gateway.operations_url + path, timeout=5, trust_env=False).status_code == 200, path

    besiege(gateway, attack, health_url=gateway.operations_url)


def test_half_a_head_holds_a_place_for_ten_seconds(start_gateway: StartGateway, tmp_path: Path) -> None:
    """Clients that leave their request half-sent keep others out no longer than that, with the default settings."""
    gateway = start_gateway(str(tmp_path), "--connections-max", "20")
    with contextlib.ExitStack() as stack:
        for number in range(40):
            stack.enter_context(gateway.connect()).sendall(HALF_A_HEAD if number % 2 else b"")

        def is_served() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{gateway.url}/healthz", timeout=5, trust_env=False).status_code == 200
            return False

        assert not is_served()
        assert eventually(is_served, 30)
