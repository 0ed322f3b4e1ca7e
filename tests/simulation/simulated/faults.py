"""What goes wrong in a simulation, how often, and how long things take. All durations in milliseconds of virtual time."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS


class Fault(Enum):
    """What happens to one request to the store."""

    NONE = "none"
    REFUSED = "refused"
    """It never reaches the store, and the client knows."""
    REQUEST_LOST = "request lost"
    """It never reaches the store; the client times out."""
    ANSWER_LOST = "answer lost"
    """It takes effect; the client times out."""
    LATE = "late"
    """The client times out; it takes effect afterwards, perhaps hours later."""
    TWICE = "twice"
    """Something on the way sends it twice at once: the client gets the second answer."""
    TWICE_LATE = "twice, late"
    """Something on the way sends it twice: the client gets the first answer, the second one takes effect much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How bad it is. Probabilities are per request, or per turn of the process that causes the fault."""

    name: str
    fault: float = 0.0
    slow: float = 0.05
    late_ms_max: int = 20 * SECOND_MS
    think_ms_max: int = 2 * SECOND_MS
    outage: float = 0.0
    outage_ms_max: int = 20 * SECOND_MS
    pause: float = 0.0
    pause_at_request: float = 0.0
    """Of a machine, at the moment when it sends a request."""
    pause_ms_max: int = 10 * SECOND_MS
    crash: float = 0.0
    checkpoint: float = 0.3
    clean_up: bool = False
    lists_from_key: bool = True
    """False: the store is like a directory, and no process lists a long log."""
    administration: float = 0.15
    recreation: float = 0.0
    """Of an actor that deletes topics and makes them anew, where there is one: in the other profiles there is none."""
    turns: int = 5
    """How often each producer sends."""


CALM = Profile(name="calm")
PASSING = Profile(name="passing", think_ms_max=SECOND_MS, pause=0.4, pause_at_request=0.01)
"""Nothing is lost, but gateways stand still and others take what they coordinate."""
FAULTY = Profile(name="faulty", fault=0.2, crash=0.1, pause=0.1, outage=0.1, administration=0.25)
STORMY = Profile(
    name="stormy", fault=0.3, slow=0.2, late_ms_max=3 * MINUTE_MS, crash=0.3, pause=0.3, outage=0.3, administration=0.3
)
CROWDED = Profile(name="crowded", fault=0.1, think_ms_max=40, administration=0.1)
SLEEPY = Profile(
    name="sleepy",
    fault=0.2,
    late_ms_max=5 * HOUR_MS,
    think_ms_max=90 * MINUTE_MS,
    pause=0.5,
    pause_at_request=0.02,
    pause_ms_max=4 * HOUR_MS,
    crash=0.1,
    checkpoint=0.7,
    clean_up=True,
    administration=0.2,
    turns=7,
)
DROWSY = replace(SLEEPY, name="drowsy", pause_at_request=0.1, fault=0.05, checkpoint=1.0, turns=5)
"""Falls asleep in the middle of everything, again and again."""
SLEEPY_ON_A_DIRECTORY = replace(SLEEPY, name="sleepy on a directory", lists_from_key=False)
DROWSY_ON_A_DIRECTORY = replace(DROWSY, name="drowsy on a directory", lists_from_key=False)
HOSTILE = Profile(
    name="hostile", fault=0.45, late_ms_max=3 * MINUTE_MS, think_ms_max=10 * SECOND_MS, administration=0.25
)
PROFILES = {
    CALM: 1,
    FAULTY: 4,
    STORMY: 4,
    CROWDED: 3,
    SLEEPY: 1,
    DROWSY: 1,
    SLEEPY_ON_A_DIRECTORY: 1,
    DROWSY_ON_A_DIRECTORY: 1,
    HOSTILE: 4,
}
"""How often each is drawn: the eventful and cheap ones more often."""

_READ_FAULTS = (Fault.REFUSED, Fault.REQUEST_LOST, Fault.ANSWER_LOST)
_WRITE_FAULTS = (*_READ_FAULTS, Fault.LATE, Fault.TWICE, Fault.TWICE_LATE)
_COMMIT_FAULTS = (*_WRITE_FAULTS, Fault.ANSWER_LOST, Fault.LATE, Fault.LATE, Fault.TWICE_LATE, Fault.TWICE_LATE)


class Faults:
    """Draws what happens from the seed."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        self._rng = rng
        self.profile = profile
        self.active = True
        """False: everything works, so that a simulation can come to its end."""

    def of_request(self, *, writes: bool, commits: bool) -> Fault:
        """What happens to a request. Commits are what this is about, so they meet more faults than others."""
        share = self.profile.fault * (2 if commits else 0.5)
        if not self.active or self._rng.random() >= share:
            return Fault.NONE
        return self._rng.choice(_COMMIT_FAULTS if commits else _WRITE_FAULTS if writes else _READ_FAULTS)

    def pause_ms(self, *, commits: bool) -> int:
        """For how long the machine pauses at a request; mostly 0. Commits are five times as often met by it."""
        share = self.profile.pause_at_request * (5 if commits else 1)
        if not self.active or self._rng.random() >= share:
            return 0
        return self._rng.randrange(1, self.profile.pause_ms_max)

    def chance(self) -> bool:
        """Heads or tails."""
        return self._rng.random() < 0.5

    def travel_ms(self) -> int:
        """How long a request or an answer is under way."""
        if self.active and self._rng.random() < self.profile.slow:
            return self._rng.randrange(100, 8 * SECOND_MS)
        return self._rng.randrange(1, 20)

    def timeout_ms(self) -> int:
        """After how long the client gives up."""
        return self._rng.choice((200, SECOND_MS, 10 * SECOND_MS))

    def late_ms(self) -> int:
        """How long what is late is under way: short, long, or up to the profile's most."""
        most = self._rng.choice((500, 5 * SECOND_MS, self.profile.late_ms_max, self.profile.late_ms_max))
        return self._rng.randrange(1, most + 1)
