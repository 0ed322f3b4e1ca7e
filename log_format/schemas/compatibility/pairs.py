"""Judges pairs of types that refer to other pairs, and to themselves.

The rules of a format say of one pair what is wrong with it (``Finding``) and which other pairs must hold for it to hold
(``Demand``). A pair that is met again while it is being judged is assumed to hold. Such an assumption may turn out wrong after
another pair was judged by it; so judging is repeated, with the pairs known that do not hold, until none is added. What is found
wrong under assumptions is wrong, since rules only ever ask that pairs hold, never that they do not.

Each pair is judged once a round and explained once, however many places have it: a schema whose types refer to each other
exponentially often takes no longer than its number of pairs. A bound on judgements and on depth ends what takes long all the
same; the pair is then incompatible, since nobody knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from log_format.schemas.compatibility.incompatibility import INCOMPATIBILITIES_MAX, Finding

JUDGEMENTS_MAX: Final = 500_000
"""Most pairs that are asked for, those that are judged already included: some seconds."""

PAIRS_DEPTH_MAX: Final = 120
"""Most pairs that wait for one another. Each takes up to six of Python's 1,000 frames."""

TOO_COMPLEX: Final = "TOO_COMPLEX"
"""Kind of the only finding of schemas that are beyond these bounds."""

Pair = TypeVar("Pair", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Demand(Generic[Pair]):
    """A pair that must hold. ``path`` leads to it, from the pair that demands it or, if it is absolute, from the root."""

    pair: Pair
    path: tuple[str, ...] = ()
    is_absolute: bool = False


Holds = Callable[[Pair], bool]
Rules = Callable[[Pair, Holds[Pair]], Iterable[Finding | Demand[Pair]]]


class TooComplexError(Exception):
    """Error: the bounds are reached."""


class Pairs(Generic[Pair]):
    """The judgements of one comparison."""

    def __init__(self, rules: Rules[Pair], weight: Callable[[Pair], int] = lambda _: 0) -> None:
        """Make one with rules and, for pairs that take longer than others, how many more judgements each counts as."""
        self._rules = rules
        self._weight = weight
        self._good: set[Pair] = set()
        self._bad: set[Pair] = set()
        self._open: set[Pair] = set()
        self._assumed = False
        self._left = JUDGEMENTS_MAX

    def findings(self, root: Pair) -> list[Finding]:
        """Return what is wrong with a pair, with paths from it; at most ``INCOMPATIBILITIES_MAX``. Empty: the pair holds."""
        found: list[Finding] = []
        try:
            if self._settled(root):
                return []
            for finding in self._explained(root):
                found.append(finding)
                if len(found) == INCOMPATIBILITIES_MAX:
                    break
        except (TooComplexError, RecursionError):
            return found or [Finding(TOO_COMPLEX)]
        assert found, "a pair that does not hold has a reason"
        return found

    def _settled(self, root: Pair) -> bool:
        while True:
            known = len(self._bad)
            self._good.clear()
            self._assumed = False
            holds = self._holds(root)
            if not self._assumed or len(self._bad) == known:
                return holds

    def _spend(self, judgements: int) -> None:
        self._left -= judgements
        if self._left < 0:
            raise TooComplexError

    def _holds(self, pair: Pair) -> bool:
        self._spend(1)
        if pair in self._bad:
            return False
        if pair in self._good:
            return True
        if pair in self._open:
            self._assumed = True
            return True
        if len(self._open) >= PAIRS_DEPTH_MAX:
            raise TooComplexError
        self._spend(self._weight(pair))
        self._open.add(pair)
        for each in self._rules(pair, self._holds):
            if isinstance(each, Finding) or not self._holds(each.pair):
                self._bad.add(pair)
                break
        else:
            self._good.add(pair)
        self._open.discard(pair)
        return pair in self._good

    def _explained(self, root: Pair) -> Iterator[Finding]:
        seen = {root}
        waiting: list[tuple[Pair, tuple[str, ...]]] = [(root, ())]
        while waiting:
            pair, path = waiting.pop()
            self._spend(self._weight(pair))
            demands = []
            for each in self._rules(pair, self._holds):
                if isinstance(each, Finding):
                    yield Finding(each.kind, (*path, *each.path), each.info)
                elif each.pair not in seen and not self._holds(each.pair):
                    seen.add(each.pair)
                    demands.append((each.pair, each.path if each.is_absolute else (*path, *each.path)))
            waiting.extend(reversed(demands))
