"""Bound of a micro-batch: each partition's share of ``maxOffsetsPerTrigger``, as with Kafka."""

from __future__ import annotations

from spark_pipeline.source.offsets import Positions


def limit_offsets(start: Positions, end: Positions, offsets_max: int) -> Positions:
    """Return ends at most ``offsets_max`` (1 and up) offsets behind ``start``, each partition in proportion to its backlog.

    Every partition with a backlog gets at least one offset if the bound allows it, so that none starves. A partition that
    ``start`` does not have begins at 0. Ends never go back.
    """
    spans = [
        (topic, partition, begin, max(0, offset - begin))
        for topic, of in sorted(end.items())
        for partition, offset in sorted(of.items())
        for begin in [start.get(topic, {}).get(partition, 0)]
    ]
    total = sum(span for *_, span in spans)
    if total <= offsets_max:
        return end
    waiting = sum(span > 0 for *_, span in spans)
    each = 1 if offsets_max >= waiting else 0
    spare, wanted = offsets_max - each * waiting, total - each * waiting
    shares = [each + spare * (span - each) // wanted if span else 0 for *_, span in spans]
    rest = offsets_max - sum(shares)
    limits: Positions = {}
    # The remainder of rounding down goes to the largest backlogs.
    for (topic, partition, begin, span), share in sorted(
        zip(spans, shares, strict=True), key=lambda one: one[0][3], reverse=True
    ):
        more = 1 if rest and share < span else 0
        rest -= more
        limits.setdefault(topic, {})[partition] = begin + share + more
    return limits
