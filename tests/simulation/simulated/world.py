"""What every history has: processes on a virtual clock, a store behind a bad network, misfortune, and actors.

Actors live outside of all gateways. When the last of them has ended nothing fails any more, and the history comes to rest.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tests.simulation.simulated.faults import HOUR_MS, Faults, Profile
from tests.simulation.simulated.scheduler import Machine, Scheduler
from tests.simulation.simulated.store import Client, Server


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a simulation was."""

    seed: int
    profile: str
    trace: tuple[str, ...]
    seen: Counter[str]
    """Faults and outcomes, by name, with how often they happened."""


def ignore(_line: str) -> None:
    """What is done with a line of the trace unless it is to be printed."""


def drawn(rng: random.Random, profiles: Mapping[Profile, int], wanted: Profile | None) -> Profile:
    """The profile that is wanted, else one by its weight. A history draws in either case."""
    (profile,) = rng.choices(list(profiles), list(profiles.values()))
    return profile if wanted is None else wanted


class World(ABC):
    """Everything that lives in one history. ``rng`` decides all of it."""

    STEPS_MAX: ClassVar[int]

    def __init__(self, rng: random.Random, faults: Faults, *, lists_from_key: bool = True) -> None:
        self.rng = rng
        self.faults = faults
        self.profile = faults.profile
        self.scheduler = Scheduler(rng, steps_max=self.STEPS_MAX)
        self.server = Server(self.scheduler, lists_from_key=lists_from_key)
        self.outside = Machine("outside")
        self.busy = 0
        """How many actors have not ended."""
        self._started = 0

    @abstractmethod
    def machines(self) -> Sequence[Machine]:
        """Of the gateways."""

    @abstractmethod
    def crash(self, index: int) -> None:
        """End a gateway where it stands, and start another one instead."""

    def noticed(self, index: int) -> None:  # noqa: B027 - most worlds need not know
        """A gateway stands still or is another one from now on."""

    def at_rest(self) -> None:  # noqa: B027 - most worlds need not know
        """The last actor has ended, and nothing fails any more."""

    def history(self, seed: int, told: Counter[str]) -> History:
        """What it was; ``told``: the outcomes that its clients were told of."""
        seen = self.server.seen + told
        return History(seed=seed, profile=self.profile.name, trace=tuple(self.scheduler.trace), seen=seen)

    def next_machine(self) -> Machine:
        """For one more gateway."""
        self._started += 1
        return Machine(f"gateway-{self._started}", wall_skew_ms=self.rng.randrange(-3000, 3000))

    def client(self, machine: Machine, faults: Faults | None = None) -> Client:
        """A machine's way to the store."""
        return Client(self.scheduler, self.server, faults or self.faults, machine)

    def actor(self, name: str, body: Callable[[], object]) -> None:
        """A process outside of all gateways."""
        self.busy += 1

        def live() -> None:
            body()
            self.busy -= 1
            if self.busy == 0:
                self.faults.active = False
                self.server.down_until_ms = 0
                self.at_rest()

        self.scheduler.start(name, self.outside, live)

    def think(self) -> None:
        """What an actor does between two turns."""
        self.scheduler.sleep_ms(self.rng.randrange(self.profile.think_ms_max))

    def misfortune(self, turns: int) -> None:
        """The actor that lets gateways stand still and crash, and the store go down."""
        for _ in range(turns):
            self.think()
            index = self.rng.randrange(len(self.machines()))
            machine = self.machines()[index]
            if self.rng.random() < self.profile.pause:
                pause_ms = self.rng.randrange(1, self.profile.pause_ms_max)
                machine.paused_until_ms = self.scheduler.now_ms + pause_ms
                self._note_fault("pause", machine, pause_ms)
                self.noticed(index)
            elif self.rng.random() < self.profile.crash:
                self._note_fault("crash", machine, 0)
                self.crash(index)
                self.noticed(index)
            elif self.rng.random() < self.profile.outage:
                self.server.down_until_ms = self.scheduler.now_ms + self.rng.randrange(self.profile.outage_ms_max)
                self._note_fault("outage", machine, self.server.down_until_ms - self.scheduler.now_ms)

    def _note_fault(self, what: str, machine: Machine, duration_ms: int) -> None:
        self.server.seen[what] += 1
        if duration_ms > HOUR_MS:
            self.server.seen[f"{what} above an hour"] += 1
        self.scheduler.note(f"{what} of {machine.name} for {duration_ms} ms")
