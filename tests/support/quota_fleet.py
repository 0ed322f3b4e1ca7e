"""Several gateways' quotas on one clock: offered loads, heartbeats that are late by a beat, and what passed."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.quotas.limits import PRODUCE_BYTES
from gateway.quotas.quotas import Quotas, Throttled
from gateway.quotas.sharing import Demands, QuotaSharing
from tests.support.clocks import ManualClock

BEAT_MS = 3_000
STEP_MS = 20
PRINCIPAL = "User:heavy"


class QuotaFleet:
    """``rate``: bytes a second of one principal over all gateways."""

    def __init__(self, gateways: int, rate: int) -> None:
        self.clock = ManualClock()
        limits = {PRODUCE_BYTES: rate}
        self.rate = rate
        self.sharing = [QuotaSharing(old_after_ms=4 * BEAT_MS) for _ in range(gateways)]
        self.quotas = [Quotas(lambda _: limits, sharing, clock=self.clock) for sharing in self.sharing]
        self.passed = [0] * gateways
        self._heard: list[Demands] = [{} for _ in range(gateways)]
        self._take_in()

    def run(self, offered: Sequence[int], duration_ms: int, *, request_bytes: int, are_polite: bool) -> int:
        """Bytes that passed. ``offered``: bytes a second at each gateway; ``are_polite``: refused clients wait as told."""
        owed = [0.0] * len(offered)
        waits_until = [0] * len(offered)
        before = sum(self.passed)
        for _ in range(duration_ms // STEP_MS):
            now_ms = self.clock.monotonic_ms()
            if now_ms % BEAT_MS == 0:
                self._beat()
            for at, rate in enumerate(offered):
                owed[at] += rate * STEP_MS / 1000
                while owed[at] >= request_bytes and now_ms >= waits_until[at]:
                    owed[at] -= request_bytes
                    waits_until[at] = now_ms + self._produce(at, request_bytes) * are_polite
                if are_polite:
                    owed[at] = min(owed[at], rate)  # as a client with a bounded buffer
            self.clock.sleep_ms(STEP_MS)
        return sum(self.passed) - before

    def _produce(self, at: int, size: int) -> int:
        quotas = self.quotas[at]
        try:
            quotas.admit(PRINCIPAL, (PRODUCE_BYTES,))
        except Throttled as refusal:
            retry_after_ms: int = refusal.fields["retry_after_ms"]
            return retry_after_ms
        quotas.spend(PRINCIPAL, PRODUCE_BYTES, size)
        self.passed[at] += size
        return 0

    def _beat(self) -> None:
        """Each reads what the others published a beat ago, and publishes anew."""
        self._take_in()
        self._heard = [quotas.publish() for quotas in self.quotas]

    def _take_in(self) -> None:
        for at, sharing in enumerate(self.sharing):
            others = [demands for other, demands in enumerate(self._heard) if other != at]
            sharing.update_from_peers(others, self.clock.monotonic_ms())
