"""The sequences of a Kafka client's transactions: the order of what is staged, and what earlier transactions have already.

Sequences count the records of each partition over all transactions of an epoch (KIP-98). A staged batch has its sequence in its
name, so staging needs no order: the commit puts the batches in order. The row of the newest transaction has the *lanes*: the next
sequence of each partition used in the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.numbered_producers import add_to_sequence, sequence_difference
from log_format.transactions.staged_records import StagedLane, StagedName

Lanes = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""``(topic hash, ((partition, next sequence), …))`` for each topic, in order."""
NO_LANES: Final[Lanes] = ()


def order_batches(names: Sequence[StagedName], lanes: Lanes) -> tuple[tuple[str, ...], Lanes]:
    """Return the staged objects in the order in which they are applied, and the lanes after them. ``lanes``: those before.

    Batches that an earlier transaction of the epoch has are left out: they came late. Raises ``RequestRefused``
    (``SEQUENCE_OUT_OF_ORDER``) if batches are missing between others.
    """
    following = {(topic, partition): sequence for topic, many in lanes for partition, sequence in many}
    numbered: dict[tuple[str, int], list[tuple[StagedLane, str]]] = {}
    for one in names:
        if one.lane is not None:
            numbered.setdefault((one.topic_hash, one.lane.partition), []).append((one.lane, one.name))
    ordered: list[str] = []
    for key in sorted(numbered):
        expected = following.get(key, 0)
        of_lane = sorted(((sequence_difference(lane.sequence, expected), lane, name) for lane, name in numbered[key]))
        new = [(lane, name) for distance, lane, name in of_lane if distance >= 0]
        for number, (lane, name) in enumerate(new):
            if number and lane.sequence != expected:
                raise RequestRefused(
                    f"Records of partition {lane.partition} are missing from sequence {expected} to {lane.sequence}.",
                    code=ErrorCode.SEQUENCE_OUT_OF_ORDER,
                    expected_sequence=expected,
                )
            expected = add_to_sequence(lane.sequence, lane.record_count)
            ordered.append(name)
        following[key] = expected
    ordered += [one.name for one in names if one.lane is None]
    return tuple(ordered), _lanes(following)


def lanes_after(names: Sequence[StagedName], lanes: Lanes) -> Lanes:
    """Return the lanes after everything staged, complete or not, for a transaction that is aborted."""
    following = {(topic, partition): sequence for topic, many in lanes for partition, sequence in many}
    for one in names:
        if one.lane is not None:
            key = (one.topic_hash, one.lane.partition)
            end = add_to_sequence(one.lane.sequence, one.lane.record_count)
            following[key] = end if sequence_difference(end, following.get(key, 0)) > 0 else following[key]
    return _lanes(following)


def _lanes(following: dict[tuple[str, int], int]) -> Lanes:
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for topic, partition in sorted(following):
        by_topic.setdefault(topic, []).append((partition, following[topic, partition]))
    return tuple((topic, tuple(many)) for topic, many in by_topic.items())
