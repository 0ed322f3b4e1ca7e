"""One history of a typed topic that is used as a table, from one seed: what ``world`` has, and further

* people are erased by conditions on typed columns (decision 120),
* the archive is laid out by columns that change (decision 113),
* a program that does not look at the protocol commits to the table (decision 080),
* everything is copied, and at the end each copy is restored by the requests that came since (decision 112).

``simulate_wider_table(seed)`` returns what happened or raises ``Violation``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from log_format import layout
from log_format.errors import ObjectExists
from tests.simulation.simulated.faults import Profile
from tests.simulation.simulated.scheduler import Machine, MachineClock
from tests.simulation.simulated_service.gateways_world import Simulation
from tests.simulation.simulated_table.backups import Backups
from tests.simulation.simulated_table.foreign import OtherWriter
from tests.simulation.simulated_table.judge import TOPIC
from tests.simulation.simulated_table.people import PEOPLE, SCHEMA, PersonValues, condition_of, condition_on
from tests.simulation.simulated_table.world import CALM, DROWSY, LONG, TableWorld
from tests.simulation.simulated_typed.values import Sent

SUBJECT = "people"
ORDERS = (None, "key", "data.who", "data.who,timestamp")
BACKUPS_MAX = 2


class WiderTableWorld(TableWorld):
    """The topic, its clients, another writer and somebody who makes copies."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, profile)
        self.values = PersonValues(rng)  # type: ignore[assignment]
        self.judge.sent = self.values.sent
        server = self.server
        self._other = OtherWriter(rng, layout.topic_root(TOPIC), server.put_if_absent, server.objects.get)
        self._backups = Backups(server.objects, MachineClock(self.scheduler, Machine("copier")), self._new_id)

    def _create(self) -> None:
        schema = {"schema": SCHEMA, "schemaType": "JSON"}
        self.insist("POST", f"/registry/subjects/{SUBJECT}/versions", schema)
        super()._create()
        self.actor("other writer", partial(self._turns, self._write_otherwise))
        self.actor("copier", partial(self._turns, self._copy))

    # Settings

    def _make(self) -> None:
        super()._make()
        self.insist("PATCH", f"/v1/topics/{TOPIC}", {"config": {"value.schema": SUBJECT}})

    def _retention(self) -> dict[str, Any]:
        archive = {"table.retention.ms": -1, "table.cluster.by": self.rng.choice(ORDERS)}
        return super()._retention() | (archive if self.rng.random() < 0.8 else {})

    # Requests to erase

    def _erase(self) -> None:
        if self.rng.random() < 0.3:
            super()._erase()
            return
        person = self.rng.choice(PEOPLE)
        text = condition_on(person)
        self._ask_to_erase({"where": text}, [text.encode()])

    def _names(self, sent: Sent) -> Sequence[bytes]:
        return (*super()._names(sent), (condition_of(sent.data) or "").encode())

    # Others

    def _write_otherwise(self) -> None:
        table = self.judge.table
        if self.rng.random() < 0.5 and table.head.topic_id is not None:
            try:
                self._other.commit(len(table.versions), table.head.files, table.foreign.metadata)
            except ObjectExists:
                return
            self.told["wrote otherwise"] += 1

    def _copy(self) -> None:
        if len(self._backups.made) < BACKUPS_MAX and self.rng.random() < 0.3:
            self.told["copied"] += self._backups.make(TOPIC)

    def _maintain_last(self) -> None:
        """As in the narrower world, without pins: their part of the log has the least and largest values of columns, so they keep
        requests from being over."""
        for pin in self.judge.table.pins:
            self.judge.pinned.pop(pin.name, None)
            self._call("DELETE", f"/v1/topics/{TOPIC}/pins/{pin.name}")
        super()._maintain_last()
        self.told["erased again in a copy"] += self._backups.check(self.judge.table)


BRIEF = replace(LONG, name="brief", turns=4)
simulate_wider_table = Simulation(WiderTableWorld, {CALM: 1, LONG: 2, BRIEF: 4, DROWSY: 1})
