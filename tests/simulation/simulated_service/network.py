"""Between clients and gateways: requests that never arrive, arrive late, and answers that are lost."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.simulation.simulated.faults import SECOND_MS, Faults
from tests.simulation.simulated.scheduler import Scheduler, Signal
from tests.simulation.simulated_service.service import Exchange, HttpAnswer, HttpRequest, Service

REGISTRY_UNAVAILABLE = "50001"
"""The code of the schema registry's answer that nothing has happened, since the store refuses."""


class Lost(Enum):
    """Why there is no answer."""

    NEVER_SENT = "never sent"
    """The connection was refused: nothing can have happened."""
    NO_ANSWER = "no answer"
    """It may have happened, may still happen, or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer, decoded."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def error_code(self) -> str:
        """The problem's code; empty for a success."""
        return str(self.body.get("error_code", "")) if isinstance(self.body, dict) else ""

    @property
    def may_have_happened(self) -> bool:
        """What the answer says of it; the schema registry's says it by its code."""
        if "may_have_happened" not in (self.body or {}):
            return self.status >= 500 and self.error_code != REGISTRY_UNAVAILABLE
        return self.status >= 400 and bool(self.body["may_have_happened"])


class Network:
    """Carries requests. How bad it is the faults' profile says."""

    def __init__(self, scheduler: Scheduler, rng: random.Random, faults: Faults) -> None:
        self._scheduler = scheduler
        self._rng = rng
        self._faults = faults
        self.seen: dict[str, int] = {}

    def call(
        self, service: Service, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None,
        *, patience_ms: int = 90 * SECOND_MS,
    ) -> Reply | Lost:  # fmt: skip
        """One request from the current process: its answer, or why there is none."""
        sent = HttpRequest(
            method=method,
            path=path,
            headers=(("content-type", "application/json"), *(headers or {}).items()),
            body=b"" if body is None else json.dumps(body).encode(),
        )
        settled = Signal(self._scheduler)
        answers: list[HttpAnswer] = []
        exchanges: list[Exchange] = []
        active, has_given_up = self._faults.active, False
        share = self._faults.profile.fault / 2 if active else 0.0
        never_arrives = self._rng.random() < share
        answer_is_lost = self._rng.random() < share
        impatient = active and self._rng.random() < 0.1

        def arrive() -> None:
            if not service.machine.alive:
                settled.give_up()
            else:
                exchanges.append(service.arrive(sent, leave))
                if has_given_up:
                    exchanges[0].hang_up()

        def leave(answer: HttpAnswer) -> None:
            if not answer_is_lost:
                self._scheduler.at(self._faults.travel_ms(), lambda: receive(answer))

        def receive(answer: HttpAnswer) -> None:
            answers.append(answer)
            settled.set()

        if not service.machine.alive:
            return Lost.NEVER_SENT
        if not never_arrives:
            self._scheduler.at(self._faults.travel_ms(), arrive)
        wait_ms = self._rng.randrange(1, 3 * SECOND_MS) if impatient else patience_ms
        self._scheduler.at(wait_ms, settled.give_up)
        settled.wait()
        if not answers:
            self._count("never arrives" if never_arrives else "answer lost" if answer_is_lost else "no answer in time")
            has_given_up = True  # what has not arrived by now arrives with that
            for exchange in exchanges:
                exchange.hang_up()
            return Lost.NO_ANSWER
        (answer,) = answers
        text = answer.body.decode()
        return Reply(status=answer.status, headers=answer.headers, body=json.loads(text) if text else None)

    def _count(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1
