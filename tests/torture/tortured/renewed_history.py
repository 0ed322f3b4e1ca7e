"""What clients saw of a topic that is deleted and made anew under its name while they work; ``renewed_judge`` judges it.

An *incarnation* is named by its topic id. Times are seconds of one monotonic clock, taken before a request and after its answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf


@dataclass(slots=True, kw_only=True)
class Life:
    """One incarnation. Each end is a span of time in which it came; ``inf``: it has not, or may not have."""

    topic_id: str
    born: tuple[float, float]
    died: tuple[float, float] = (inf, inf)

    def may_be_there(self, since: float, until: float) -> bool:
        """Whether it can have been there at some moment between."""
        return self.born[0] <= until and since <= self.died[1]

    def is_there(self, since: float, until: float) -> bool:
        """Whether it was there all the time."""
        return self.born[1] <= since and until <= self.died[0]


def gaps_of(lives: Sequence[Life]) -> list[tuple[float, float]]:
    """The spans of time in which there may have been no topic."""
    between = [(one.died[0], after.born[1]) for one, after in pairwise(lives)]
    return [(-inf, lives[0].born[1]), *between, (lives[-1].died[0], inf)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An answer that names the incarnation of its records.

    ``asked``: the offset and the id that the reader named; None: it is a group's member."""

    reader: str
    group: str = ""
    topic_id: str
    partition: int
    asked: tuple[int, str] | None = None
    offsets: list[int]
    values: list[str]
    next_offset: int
    high_watermark: int
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """Records that a client handed out without their topic's id. ``keeps``: it is promised to go on in the right incarnation."""

    reader: str
    group: str = ""
    keeps: bool = True
    from_latest: bool = False
    """Whether it may begin anywhere."""
    records: list[tuple[int, int, str]]
    """Partition, offset, value."""
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An answer that there is no such topic."""

    client: str
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """An offset that a group's only committer wanted to be committed for an incarnation. No offset comes twice."""

    group: str
    topic_id: str
    offset: int
    outcome: str
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The offset that a group has, None: none."""

    group: str
    offset: int | None
    started: float
    ended: float


@dataclass(slots=True)
class RenewedHistory:
    """Lists of each kind; a list's append is atomic, so threads share them."""

    lives: list[Life] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    looked: list[Looked] = field(default_factory=list)
    doubts: list[float] = field(default_factory=list)
    """When a deletion or a creation was in doubt: it may happen later, unseen."""

    def counts(self) -> dict[str, int]:
        """What happened, by name."""
        found = Counter({"topics made anew": len(self.lives) - 1, "renewed: answers in between": len(self.missing)})
        found["renewed: records read"] = sum(len(one.values) for one in self.seen)
        found["renewed: records handed out"] = sum(len(one.records) for one in self.handed)
        found.update(f"renewed: offset by id {one.outcome}" for one in self.committed)
        return dict(sorted(found.items()))
