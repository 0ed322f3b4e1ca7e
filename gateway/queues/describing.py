"""State of a queue's partitions: for a description, and for the metrics.

Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits
from gateway.queues.bounds import LAG_RECORDS_MAX, SCANNED_BYTES_MAX, SERIES_MAX
from gateway.queues.coordinator import Coordinator
from gateway.queues.live_queue import LiveQueue
from gateway.queues.queue_partition import QueuePartition
from gateway.queues.selection import filter_of
from log_format.clock import Clock
from log_format.queues.runs import SETTLED as RUN_SETTLED
from log_format.records.filter import RecordFilter

_READ_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """State of one partition. ``blocked_ms``: time for which the first unsettled record has held back the start offset while
    later records are settled."""

    topic: str
    partition: int
    start_offset: int
    in_flight: int
    delayed: int
    lag: int
    blocked_ms: int


class QueueDescriber(Collector):
    """Descriptions of queues. Registered in the gateway's registry; a scrape asks for nothing from the store."""

    def __init__(
        self,
        topics: OpenTopics,
        reading: PartitionReader,
        clock: Clock,
        registry: CollectorRegistry,
        coordinator: Coordinator,
    ) -> None:
        self._topics = topics
        self._reading = reading
        self._clock = clock
        self._coordinator = coordinator
        registry.register(self)

    async def partitions(self, queue: LiveQueue, shown: Callable[[str], bool]) -> list[PartitionDescription]:
        """Return all partitions of the topics that exist and are ``shown``, in order. Raises ``BackOff``, ``CorruptData``."""
        arrival_ms = self._clock.monotonic_ms()
        found: list[PartitionDescription] = []
        for name in filter(shown, queue.settings.topics):
            topic = await self._topics.fresh(name, arrival_ms)
            if topic.state.exists:
                partitions = range(topic.state.partition_count)
                found += [await self._described(queue, topic, partition) for partition in partitions]
        return found

    async def _described(self, queue: LiveQueue, topic: OpenTopic, partition: int) -> PartitionDescription:
        share, end = _share(queue, topic, partition)
        wanted = filter_of(queue.settings)
        lag = share.unsettled(end) if wanted is None else await self._passing(topic, share, end, wanted)
        return self._description(share, lag)

    def _description(self, share: QueuePartition, lag: int) -> PartitionDescription:
        is_blocked = any(run.state == RUN_SETTLED for run in share.runs)
        return PartitionDescription(
            topic=share.topic,
            partition=share.partition,
            start_offset=share.start,
            in_flight=share.in_flight,
            delayed=share.delayed(self._clock.now_ms()),
            lag=lag,
            blocked_ms=max(0, self._clock.monotonic_ms() - share.moved_ms) if is_blocked else 0,
        )

    async def _passing(self, topic: OpenTopic, share: QueuePartition, end: int, wanted: RecordFilter) -> int:
        """Return the number of unsettled records that pass the filter; the records beyond a bounded look count as passing."""
        start, runs, offset, passing, looked_bytes = share.start, share.runs, share.start, 0, 0
        while offset < end and offset - start < LAG_RECORDS_MAX and looked_bytes < SCANNED_BYTES_MAX:
            limits = ReadLimits(records_max=end - offset, bytes_max=_READ_BYTES)
            found = await self._reading.read(topic, topic.state, share.partition, offset, limits)
            for table in found.tables:
                offsets = table.column("offset").to_numpy()
                mask = wanted.mask(table) & (offsets < end)
                for run in runs:
                    if run.state == RUN_SETTLED:
                        mask &= (offsets < run.first) | (offsets > run.last)
                passing += int(np.count_nonzero(mask))
            looked_bytes += found.size_bytes
            if found.next_offset <= offset:
                break
            offset = found.next_offset
        rest = share.unsettled(end) - share.unsettled(min(offset, end))
        return passing + max(0, rest)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the queues coordinated here, as far as their topics are known."""
        families = {
            "in_flight": "Leased records of a queue's topic.",
            "delayed": "Records of a queue's topic whose delivery is delayed.",
            "lag": "Unsettled records of a queue's topic.",
            "blocked_seconds": "Seconds for which one record has held back the start offset while later records are settled.",
        }
        gauges = {
            name: GaugeMetricFamily(f"tidelog_queue_{name}", text, labels=("queue", "topic"))
            for name, text in families.items()
        }
        queues = list(self._coordinator)
        for queue in queues[:SERIES_MAX]:
            if queue.is_current:
                self._collect(queue, gauges)
        yield from gauges.values()
        left_out = GaugeMetricFamily(
            "tidelog_queues_left_out", "Queues coordinated here whose metrics are not reported."
        )
        left_out.add_metric((), max(0, len(queues) - SERIES_MAX))
        yield left_out

    def _collect(self, queue: LiveQueue, gauges: dict[str, GaugeMetricFamily]) -> None:
        for name in queue.settings.topics:
            topic = self._topics.known(name)
            if topic is None or not topic.state.exists:
                continue
            described = []
            for partition in range(topic.state.partition_count):
                share, end = _share(queue, topic, partition)
                described.append(self._description(share, share.unsettled(end)))
            gauges["in_flight"].add_metric((queue.name, name), sum(one.in_flight for one in described))
            gauges["delayed"].add_metric((queue.name, name), sum(one.delayed for one in described))
            gauges["lag"].add_metric((queue.name, name), sum(one.lag for one in described))
            longest_ms = max((one.blocked_ms for one in described), default=0)
            gauges["blocked_seconds"].add_metric((queue.name, name), longest_ms / 1000)


def _share(queue: LiveQueue, topic: OpenTopic, partition: int) -> tuple[QueuePartition, int]:
    state = topic.state
    share = queue.share(topic.name, (state.existing_id, partition), state.log_start(partition))
    return share, state.high_watermark(partition)
