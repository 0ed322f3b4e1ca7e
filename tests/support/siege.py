"""Doing something hostile to a gateway, and measuring what it costs all others.

The two ceilings are the gateway's promises: 600 MiB resident under any load, and nothing that blocks the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import urllib3

from tests.support.gateway_process import GatewayProcess
from tests.support.repeatedly import repeatedly

RESIDENT_BYTES_MAX = 600 * 1024 * 1024
STALL_MS_MAX = 250
PROBE_EVERY_SECONDS = 0.02
TRIES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an attack cost: the longest that ``/healthz`` waited, and the most memory that the process held."""

    stall_ms: float
    peak_bytes: int

    def is_borne(self) -> bool:
        """Whether both ceilings hold."""
        return self.stall_ms <= STALL_MS_MAX and self.peak_bytes <= RESIDENT_BYTES_MAX


class _Probe:
    """How long ``/healthz`` waited at most, of all times that it was asked for, on one connection."""

    def __init__(self, url: str, http: urllib3.PoolManager) -> None:
        self.stall_ms = 0.0
        self._url = url
        self._http = http

    def ask(self) -> None:
        """Once more."""
        begun = time.monotonic()
        try:
            status = self._http.request("GET", f"{self._url}/healthz").status
        except urllib3.exceptions.HTTPError:
            status = 0
        waited_ms = (time.monotonic() - begun) * 1000 if status == 200 else float("inf")
        self.stall_ms = max(self.stall_ms, waited_ms)


def measure(gateway: GatewayProcess, attack: Callable[[], object], health_url: str) -> Cost:
    """What ``attack()`` costs all others while it runs. Raises what it raises."""
    gateway.reset_peak()
    with urllib3.PoolManager(retries=False, timeout=60) as http:
        probe = _Probe(health_url, http)
        with repeatedly(probe.ask, PROBE_EVERY_SECONDS):
            time.sleep(0.2)
            attack()
            time.sleep(0.2)
    return Cost(stall_ms=probe.stall_ms, peak_bytes=gateway.peak_bytes())


def besiege(gateway: GatewayProcess, attack: Callable[[], object], *, health_url: str | None = None) -> Cost:
    """Run ``attack()``; fail when ``/healthz`` waited or memory grew beyond the ceilings.

    The machine's own hiccups come and go, a defect is there each time: of up to three tries the best counts. So ``attack`` is
    called up to three times. ``health_url``: which address is asked for ``/healthz``; by default the gateway's own.
    """
    costs: list[Cost] = []
    while len(costs) < TRIES_MAX and not any(cost.is_borne() for cost in costs):
        costs.append(measure(gateway, attack, health_url or gateway.url))
    assert any(cost.is_borne() for cost in costs), [
        f"/healthz waited {cost.stall_ms:.0f} ms, resident {cost.peak_bytes >> 20} MiB" for cost in costs
    ]
    return costs[-1]
