"""What of a large transaction is read before it is decided: a batch of each topic, and all that is no batch (decision 081).

The names of batches say the incarnation of their topic. So one batch of each topic tells the topics and their incarnations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from log_format.transactions.staged_records import StagedRecords, incarnation_hash, parse_name, topic_hash


class Outline(NamedTuple):
    """``batches``: names of the batches, in order; ``others``: of the other objects. ``incarnations``: those of the names, by the
    hash of the topic."""

    batches: Sequence[str]
    others: Sequence[str]
    firsts: Sequence[str]
    """The first batch of each topic."""
    incarnations: dict[str, set[str]]

    @property
    def read(self) -> list[str]:
        """The objects to read."""
        return [*self.firsts, *self.others]

    def fits(self, firsts: Iterable[StagedRecords]) -> bool:
        """Whether all batches were routed for the incarnations of these, and these are of the topics that their names say."""
        known = {topic_hash(one.topic): incarnation_hash(one.topic_id) for one in firsts}
        return known.keys() == self.incarnations.keys() and all(
            named <= {"", known[topic]} for topic, named in self.incarnations.items()
        )


def outline_of(names: Iterable[str]) -> Outline:
    """Of the staged objects of a Kafka client's transaction."""
    batches: list[str] = []
    others: list[str] = []
    firsts: list[str] = []
    incarnations: dict[str, set[str]] = {}
    for name in names:
        staged = parse_name(name)
        if staged is None or staged.lane is None:
            others.append(name)
            continue
        if staged.topic_hash not in incarnations:
            firsts.append(name)
        batches.append(name)
        incarnations.setdefault(staged.topic_hash, set()).add(staged.lane.incarnation)
    return Outline(batches, others, firsts, incarnations)
