"""How much a micro-batch takes of what is there: each partition's share of ``maxOffsetsPerTrigger``, as with Kafka."""

from __future__ import annotations

from spark_pipeline.source.offsets import Positions


def limited(start: Positions, end: Positions, offsets_max: int) -> Positions:
    """Ends at most ``offsets_max`` (1 and up) offsets behind ``start``, each partition in proportion to what it has.

    Every partition that has something gets at least one while the bound allows it, so that none starves; a partition that
    ``start`` does not know begins at 0. Ends never go back.
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
    limits: Positions = {}
    rest = offsets_max
    shares = {(topic, partition): offsets_max * span // total for topic, partition, _, span in spans}
    rest -= sum(shares.values())
    # What rounding down left over goes first to those that would get nothing, then to the largest.
    for topic, partition, begin, span in sorted(spans, key=lambda one: (shares[one[0], one[1]] > 0, -one[3])):
        share = shares[topic, partition]
        if rest and share < span:
            share, rest = share + 1, rest - 1
        limits.setdefault(topic, {})[partition] = begin + share
    return limits
