"""Offsets that a query was to read and that are gone, and ``failOnDataLoss``.

A query loses records when retention or a deletion moved the log start beyond its position. It also does when the topic was
deleted or re-created, and when a partition ends before its position. With ``failOnDataLoss`` (the default) the query fails and
says so. Without, it goes on with the first record that there is, and logs a warning. The gaps of key compaction are no loss.
"""

from __future__ import annotations

import logging
from types import MappingProxyType

from spark_pipeline.source.offsets import Positions, TopicIds
from spark_pipeline.source.topics import TopicsView

_log = logging.getLogger("spark_pipeline.source")


class DataLoss(RuntimeError):
    """Records that the query was to read are gone; see the module."""


def readable_starts(
    start: Positions, view: TopicsView, *, fail: bool, ids: TopicIds = MappingProxyType({})
) -> Positions:
    """Return where reading goes on in each partition of ``view``: at ``start``, where that can be read.

    A partition that ``start`` does not know, since it is new, begins at its first record. So does each of a topic whose id is not
    the one in ``ids``, that of the topic which ``start`` belongs to. Raises ``DataLoss`` when ``fail``.
    """
    for topic, of in start.items():
        for partition in of:
            if partition not in view.partitions.get(topic, ()):
                lost(f"{topic}/{partition} does not exist any more", fail=fail)
    found: Positions = {}
    for topic, partitions in view.partitions.items():
        state = view.states[topic]
        is_another = topic in ids and topic in start and ids[topic] != state.topic_id
        if is_another:
            lost(
                f"topic {topic!r} was deleted and made anew: its id was {ids[topic]}, and is {state.topic_id}",
                fail=fail,
            )
        for partition in partitions:
            log_start, end = state.log_start(partition), state.high_watermark(partition)
            offset = None if is_another else start.get(topic, {}).get(partition)
            if offset is not None and not log_start <= offset <= end:
                lost(f"{topic}/{partition} was read up to {offset}, and holds [{log_start}, {end}) now", fail=fail)
                offset = None
            found.setdefault(topic, {})[partition] = log_start if offset is None else offset
    return found


def lost(what: str, *, fail: bool) -> None:
    """Report that records are gone: raise ``DataLoss`` when ``fail``, else log a warning and return."""
    if fail:
        raise DataLoss(
            f"{what}: records may be lost to this query. To go on with what is there, set the option failOnDataLoss to false."
        )
    _log.warning("%s; going on with what is there (failOnDataLoss is false)", what)
