"""A gateway that is alone, with long pauses between its calls: what it asks for meanwhile, and how late it publishes."""

from __future__ import annotations

import random

from tests.simulation.simulated.faults import CALM, MINUTE_MS
from tests.simulation.simulated_delays.world import TOPIC, DelaysWorld
from tests.simulation.simulated_service.gateways_world import Over
from tests.simulation.simulated_service.network import Reply

DELAYS_MS = (1_500, 5_000, 29_000, 31_000, 45_000, 90_000)


class QuietWorld(DelaysWorld):
    """``lists``: how often the store was listed in ``minutes`` of silence."""

    def __init__(self, seed: int, minutes: int) -> None:
        super().__init__(random.Random(seed), CALM)
        self.faults.active = False  # nor is anything slow
        self.lists = 0
        self._minutes = minutes

    def begin(self) -> None:
        """One gateway with the right time, one client."""
        self.services.append(self.start_service())
        self.services[0].machine.wall_skew_ms = 0
        self.actor("client", self._live)

    def _live(self) -> None:
        self._call("POST", "/v1/topics", {"name": TOPIC, "config": {"flush.ms": 0}})
        self.scheduler.sleep_ms(2 * MINUTE_MS)
        noted = len(self.scheduler.trace)
        self.scheduler.sleep_ms(self._minutes * MINUTE_MS)
        self.lists = sum(line.endswith(" list ") for line in self.scheduler.trace[noted:])
        for delay_ms in DELAYS_MS:
            self.scheduler.sleep_ms(self.rng.randrange(20_000))
            records = [{"value": str(delay_ms), "deliver_after_ms": delay_ms}]
            reply = self._call("POST", f"/v1/topics/{TOPIC}/records", {"records": records})
            assert isinstance(reply, Reply), reply
            assert len(reply.body["scheduled"]) == 1, reply
        self.scheduler.sleep_ms(3 * MINUTE_MS)

    def at_rest(self) -> None:
        """The gateway would go on for ever."""

        def over() -> None:
            raise Over

        self.scheduler.at(0, over)
