"""The outline of a large transaction, which is read before the decision: a batch of each topic, and all other objects (decision
081).

The names of batches have the incarnation of their topic. So one batch of each topic shows the topics and their incarnations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from log_format.transactions.staged_records import StagedRecords, incarnation_hash, parse_name, topic_hash


class Outline(NamedTuple):
    """The names of a transaction's staged objects, sorted out.

    ``batches``: batches, in order. ``others``: all other objects. ``incarnations``: hash of each topic -> the incarnations in
    names.
    """

    batches: Sequence[str]
    others: Sequence[str]
    firsts: Sequence[str]
    """First batch of each topic."""
    incarnations: dict[str, set[str]]

    @property
    def read(self) -> list[str]:
        """Names of the objects to read."""
        return [*self.firsts, *self.others]

    def matches(self, firsts: Iterable[StagedRecords]) -> bool:
        """Return whether all batches were routed for the incarnations of ``firsts``, whose topics are those that
        their names say."""
        known = {topic_hash(one.topic): incarnation_hash(one.topic_id) for one in firsts}
        return known.keys() == self.incarnations.keys() and all(
            named <= {"", known[topic]} for topic, named in self.incarnations.items()
        )


def make_outline(names: Iterable[str]) -> Outline:
    """Return the outline of the staged objects of a Kafka client's transaction."""
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
