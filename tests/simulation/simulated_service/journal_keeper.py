"""The upkeep of journals, begun from outside of the gateways: their own, which runs for ever, would not let a history end."""

from __future__ import annotations

from log_format.errors import CorruptData, TidelogError
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_service.service import Service

EAGER = {
    "gateway.journals.upkeep._FOUND_EVERY_ROUNDS": 2,
    "gateway.journals.upkeep._LEFT_ROUNDS": 2,
    "gateway.journals.commit_modes.OWN_COMMITS_MAX": 1.0,
    "gateway.journals.commit_modes.TOPICS_MIN": 1,
    "gateway.journals.commit_modes.OWN_COMMITS_LEFT": 0.5,
    "gateway.journals.commit_modes.OWN_FLUSH_BYTES": 12,
    "gateway.journals.commit_modes.OWN_AGAIN_MS": 1_000,
    "gateway.journals.commit_modes.MOVED_AGAIN_MS": 3_000,
}
"""Bounds that a history of a minute meets."""


class JournalKeeper:
    """Begins rounds of upkeep, one at a time in each gateway, and remembers what failed that must not."""

    def __init__(self) -> None:
        self._failures: list[BaseException] = []
        self._keeping: set[Service] = set()

    def keep(self, service: Service, *, is_over: bool = False) -> None:
        """Begin a round in a gateway that has none. ``is_over``: no topic moves by itself any more."""
        if service in self._keeping:
            return

        async def keep() -> None:
            self._keeping.add(service)
            try:
                await service.engine.journal_upkeep.run_once()
                if is_over:
                    await service.engine.sweeping.sweep_once(left_alone_ms=0)
                else:
                    await service.engine.commit_modes.run_once()
            except CorruptData as problem:
                self._failures.append(problem)
            except TidelogError:
                return
            except Exception as problem:  # noqa: BLE001 - a defect, wherever it is
                self._failures.append(problem)
            finally:
                self._keeping.discard(service)

        service.do(keep)

    def check(self) -> None:
        """Raise ``Violation`` for the first failure."""
        if self._failures:
            raise Violation(f"the upkeep failed: {self._failures[0]!r}") from self._failures[0]
