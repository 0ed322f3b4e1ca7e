"""A reader on a gateway: polls every partition from where it is, and compares each record with what is true."""

from __future__ import annotations

from log_format.errors import CorruptData, StoreUnavailable
from log_format.topic.state import TopicState
from tests.simulation.simulated.gateway import TOPIC, Gateway
from tests.simulation.simulated.truth import Violation


class Reader:
    """Reads one topic from its log start on, across incarnations; never skips, never goes back."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._topic_id: str | None = None
        self._positions: dict[int, int] = {}

    def poll(self) -> None:
        """Read everything that is there. What the store refuses is read next time."""
        try:
            state = self._gateway.look()
            if state.topic_id != self._topic_id:
                self._topic_id, self._positions = state.topic_id, {}
            for partition in range(state.partition_count):
                self._read(state, partition)
        except StoreUnavailable:
            return

    def _read(self, state: TopicState, partition: int) -> None:
        assert state.topic_id is not None
        end = state.high_watermark(partition)
        while (offset := self._positions.setdefault(partition, state.log_start(partition))) < end:
            located = state.manifest.find(partition, offset)
            newest = self._gateway.log.state
            if newest.topic_id != state.topic_id or newest.log_start(partition) > offset:
                if newest.topic_id == state.topic_id:
                    self._positions[partition] = newest.log_start(partition)
                    continue
                return
            if located is None:
                raise Violation(f"no segment holds offset {offset} of partition {partition}, the log ends at {end}")
            try:
                records = self._gateway.reader.read(
                    TOPIC, located.segment, partition, offset, bytes_max=1 << 20, records_max=10, end_offset=end
                )
            except CorruptData:
                if located.segment.path in self._gateway.oracle.truth.head.paths:
                    raise
                return
            for found, value in zip(records["offset"].to_pylist(), records["value"].to_pylist(), strict=True):
                if found != offset:
                    raise Violation(f"a reader at offset {offset} of partition {partition} got {found}")
                self._gateway.oracle.read(state.topic_id, partition, found, value)
                offset += 1
            if offset == self._positions[partition]:
                raise Violation(
                    f"a reader at offset {offset} of partition {partition} got nothing, the log ends at {end}"
                )
            self._positions[partition] = offset
