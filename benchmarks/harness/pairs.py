"""Two trees of the source, or more ways, measured in one run: they take turns, so that other work disturbs all alike."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from benchmarks.harness.processes import ROOT, Server, gateway
from benchmarks.harness.stores import Store

THIS: Final = "this tree"
BEFORE: Final = "before"

Key = TypeVar("Key")
Found = TypeVar("Found")


def sources(beside: Path | None) -> dict[str, Path]:
    """Return the measured trees by name; the other one is the first."""
    return ({} if beside is None else {BEFORE: beside}) | {THIS: ROOT}


def commit_of(tree: Path) -> str:
    """Return the commit of a tree, with a plus if files differ from it; a tree without commits has its folder's name."""
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or tree.name


def store_of(store: Store, source: str) -> str:
    """Return the URI at which the gateways of a source keep their records."""
    return f"{store.uri}/{source.replace(' ', '-')}"


def gateways(running: ExitStack, store: Store, beside: Path | None) -> dict[str, Server]:
    """Start a gateway of each source, with default settings."""
    return {
        name: running.enter_context(gateway(store_of(store, name), dict(store.environment), directory=directory))
        for name, directory in sources(beside).items()
    }


def in_turns(
    measures: Mapping[Key, Callable[[], Found]], rounds: int, *, warms_up: bool = False
) -> dict[Key, list[Found]]:
    """Call each measure once a round, and return what each found, round by round.

    Args:
        measures: what is called. Each round begins with another one: what one leaves would always meet the next.
        rounds: the number of rounds that are returned.
        warms_up: whether a round goes before them, which warms caches and opens topics.
    """
    found: dict[Key, list[Found]] = {key: [] for key in measures}
    keys = list(measures)
    for turn in range(-1 if warms_up else 0, rounds):
        first = turn % len(keys)
        for key in (*keys[first:], *keys[:first]):
            measured = measures[key]()
            if turn >= 0:
                found[key].append(measured)
    return found


def ratio(own: Sequence[float], base: Sequence[float]) -> float:
    """Return the median of the ratios of each round."""
    return median(value / other for value, other in zip(own, base, strict=True))


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, the lowest and the highest of the rounds."""

    values: Sequence[float]

    def text(self, digits: int) -> str:
        """Return a table's cell."""
        low, middle, high = self.cells(digits)
        return f"{middle} ({low} to {high})"

    def cells(self, digits: int) -> tuple[str, str, str]:
        """Return the lowest, the median and the highest, a cell each."""
        low, middle, high = (f"{each(self.values):,.{digits}f}" for each in (min, median, max))
        return low, middle, high
