"""Begin and end of a query, from its options and the current topics.

A timestamp means the first offset whose record has at least that timestamp. If a partition has no such record, an end is the
latest offset; a start is refused or is the latest offset (``startingOffsetsByTimestampStrategy``). Both as with Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from log_format.topic.state import TopicState
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.source.offsets import EARLIEST, LATEST, Positions
from spark_pipeline.source.options import Boundary, SourceOptions
from spark_pipeline.source.reading import PartReader
from spark_pipeline.source.topics import TopicsView


def resolve_starting_positions(options: SourceOptions, view: TopicsView, reader: PartReader) -> Positions:
    """Return where the query begins: given offsets unchanged, ``EARLIEST`` and ``LATEST`` resolved.

    Raises ``OptionRefused`` for options that do not fit the topics, and as ``offset_at``.
    """
    fails = options.fail_on_missing_timestamp
    return _resolve(options.starting, "starting", view, reader, latest_if_missing=not fails)


def resolve_ending_positions(options: SourceOptions, view: TopicsView, reader: PartReader) -> Positions:
    """Return where a batch query ends (exclusive). Raises as ``resolve_starting_positions``."""
    return _resolve(options.ending, "ending", view, reader, latest_if_missing=True)


def offset_at(state: TopicState, partition: int, timestamp_ms: int, reader: PartReader) -> int | None:
    """Return the partition's first offset whose record has ``timestamp_ms`` or later; None if there is none.

    Raises ``CorruptData``, ``StoreUnavailable``.
    """
    offset = state.log_start(partition)
    while (located := state.manifest.find_timestamp(partition, offset, timestamp_ms)) is not None:
        start = max(offset, located.base_offset)
        found = reader.find_timestamp(state, located, partition, start, timestamp_ms)
        if found is not None:
            return found
        offset = located.end_offset
    return None


def _resolve(
    boundary: Boundary, side: str, view: TopicsView, reader: PartReader, *, latest_if_missing: bool
) -> Positions:
    def by_time(option: str, time_of: Callable[[str, int], int]) -> Positions:
        found: Positions = {}
        for topic, partitions in view.partitions.items():
            for partition in partitions:
                state, timestamp_ms = view.states[topic], time_of(topic, partition)
                offset = offset_at(state, partition, timestamp_ms, reader)
                if offset is None and not latest_if_missing:
                    raise OptionRefused(
                        option,
                        f"no record of {topic}/{partition} is as late as {timestamp_ms}; "
                        "startingOffsetsByTimestampStrategy latest begins at the end there",
                    )
                found.setdefault(topic, {})[partition] = state.high_watermark(partition) if offset is None else offset
        return found

    if boundary.timestamp_ms is not None:
        at = boundary.timestamp_ms
        return by_time(f"{side}Timestamp", lambda _topic, _partition: at)
    if boundary.timestamps_ms is not None:
        times, option = boundary.timestamps_ms, f"{side}OffsetsByTimestamp"
        _check_all_named(option, times, view)
        return by_time(option, lambda topic, partition: times[topic][partition])
    if isinstance(boundary.offsets, int):
        return view.starts() if boundary.offsets == EARLIEST else view.ends()
    _check_all_named(f"{side}Offsets", boundary.offsets, view)
    special = {EARLIEST: view.starts(), LATEST: view.ends()}
    return {
        topic: {
            partition: special[offset][topic][partition] if offset in special else offset
            for partition, offset in of.items()
        }
        for topic, of in boundary.offsets.items()
    }


def _check_all_named(option: str, given: Positions, view: TopicsView) -> None:
    there = {(topic, partition) for topic, partitions in view.partitions.items() for partition in partitions}
    named = {(topic, partition) for topic, of in given.items() for partition in of}
    if named == there:
        return
    wrong = min(named ^ there)
    what = "is missing" if wrong in there else "is not read by this query"
    raise OptionRefused(option, f"must name every partition that is read, and no other: {wrong[0]}/{wrong[1]} {what}")
