"""Detection of lost offsets that a query was to read, and ``failOnDataLoss``.

A query loses records when retention or a deletion moved the log start beyond its position, when the topic was deleted or
recreated, and when a partition ends before its position. With ``failOnDataLoss`` (the default) the query fails and reports
that. Without it, the query continues with the first available record, and logs a warning. Gaps left by key compaction are no
loss.
"""

from __future__ import annotations

import logging
from types import MappingProxyType

from spark_pipeline.source.offsets import Positions, TopicIds
from spark_pipeline.source.topics import TopicsView

_log = logging.getLogger("spark_pipeline.source")


class DataLoss(RuntimeError):
    """Records that the query was to read are lost; see the module."""


def readable_starts(
    start: Positions, view: TopicsView, *, fail: bool, ids: TopicIds = MappingProxyType({})
) -> Positions:
    """Return where reading continues in each partition of ``view``: at ``start``, if that can be read.

    A new partition, which ``start`` does not have, begins at its first record. So does each partition of a topic whose id
    differs from that in ``ids``, since ``start`` belongs to a deleted topic. Raises ``DataLoss`` when ``fail``.
    """
    for topic, of in start.items():
        for partition in of:
            if partition not in view.partitions.get(topic, ()):
                report_loss(f"{topic}/{partition} does not exist any more", fail=fail)
    found: Positions = {}
    for topic, partitions in view.partitions.items():
        state = view.states[topic]
        is_another = topic in ids and topic in start and ids[topic] != state.topic_id
        if is_another:
            report_loss(
                f"topic {topic!r} was deleted and made anew: its id was {ids[topic]}, and is {state.topic_id}",
                fail=fail,
            )
        for partition in partitions:
            log_start, end = state.log_start(partition), state.high_watermark(partition)
            offset = None if is_another else start.get(topic, {}).get(partition)
            if offset is not None and not log_start <= offset <= end:
                report_loss(
                    f"{topic}/{partition} was read up to {offset}, and holds [{log_start}, {end}) now", fail=fail
                )
                offset = None
            found.setdefault(topic, {})[partition] = log_start if offset is None else offset
    return found


def report_loss(what: str, *, fail: bool) -> None:
    """Report lost records: raise ``DataLoss`` when ``fail``, else log a warning."""
    if fail:
        raise DataLoss(
            f"{what}: records may be lost to this query. To go on with what is there, set the option failOnDataLoss to false."
        )
    _log.warning("%s; going on with what is there (failOnDataLoss is false)", what)
