"""Values that say whom they are about, and conditions that mean one person."""

from __future__ import annotations

import json
import random

from tests.simulation.simulated_typed.values import KEYS, Sent

PEOPLE = ("anna", "bo", "cleo")
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}, "who": {"type": "string"}}})


class PersonValues:
    """Makes values, each once. Keys and people are drawn apart."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.sent: dict[bytes, Sent] = {}

    def make(self, now_ms: int) -> Sent:
        """One more value."""
        data = json.dumps({"n": len(self.sent), "who": self._rng.choice(PEOPLE)}).encode()
        sent = Sent(data, None, began_ms=now_ms, key=self._rng.choice(KEYS))
        self.sent[sent.data] = sent
        return sent


def condition_on(person: str) -> str:
    """The condition that means a person."""
    return f"data.who = '{person}'"


def condition_of(value: bytes) -> str | None:
    """The condition that means the person whom a value is about; None: it is about nobody."""
    return condition_on(json.loads(value)["who"]) if value.startswith(b"{") else None
