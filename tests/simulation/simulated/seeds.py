"""Which histories a test runs. Each prints how it is run alone.

``TIDELOG_X_SEEDS=10000`` runs so many; ``TIDELOG_X_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product
from typing import Any

from log_format.errors import CorruptData
from tests.simulation.simulated.faults import Profile
from tests.simulation.simulated.scheduler import StillRunning
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated.world import History, ignore


class Seeds:
    """``name``: of the environment's variables. The histories are split into parts of ``at_once``, for several processes and so
    that none takes long."""

    def __init__(self, name: str, count: int, at_once: int) -> None:
        self._variable = f"TIDELOG_{name}_SEED"
        one = os.environ.get(self._variable)
        self._seeds = range(int(os.environ.get(f"{self._variable}S", str(count)))) if one is None else [int(one)]
        self.parts = range(-(-len(self._seeds) // at_once))
        self.on_note: Callable[[str], None] = ignore if one is None else print

    def of(self, part: int) -> Iterator[int]:
        """The seeds of a part."""
        for seed in self._seeds[part :: len(self.parts)]:
            print(f"{self._variable}={seed}")
            yield seed


def seed_that_shows(
    seeds: Iterable[int], simulate: Callable[[int], object], tell: Callable[[str], None] = print
) -> int | None:
    """The first seed whose history breaks a promise or never comes to rest; None where none does. Tells what each takes."""
    for seed in seeds:
        began = time.process_time()
        try:
            simulate(seed)
        except (Violation, CorruptData, StillRunning) as problem:
            tell(f"seed {seed}, {time.process_time() - began:.1f} s: {problem}")
            return seed
        tell(f"seed {seed}, {time.process_time() - began:.1f} s: nothing")
    return None


def shows(simulate: Callable[..., object], first_seed: int, seeds_max: int, **how: Any) -> bool:
    """Whether one of so many histories from that seed on does. ``how``: what ``simulate`` is told beside the seed."""
    return seed_that_shows(range(first_seed, first_seed + seeds_max), lambda seed: simulate(seed, **how)) is not None


def unseen(
    names: Iterable[str],
    simulate: Callable[..., History],
    profiles: Iterable[Profile],
    seeds: Iterable[int],
    *,
    first: Iterable[tuple[int, Profile]] = (),
) -> set[str]:
    """What does not happen in histories of each profile. They end as soon as all of it did: ``first`` are those in which most
    of it happens."""
    missing = set(names)
    for seed, profile in chain(first, product(seeds, profiles)):
        missing -= simulate(seed, profile=profile).seen.keys()
        if not missing:
            break
    return missing


def digest(history: History) -> str:
    """Of what happened, line by line."""
    return hashlib.sha256("\n".join(history.trace).encode()).hexdigest()
