"""The upkeep of a topic's pins: expired ones are dropped, and each other one gets the checkpoint that readers of it need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from compaction.report import Reporter, Totals
from log_format.checkpoints.pinned_versions import keep_version, pinned_paths
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.errors import CorruptData
from log_format.store import ObjectInfo, ObjectStore
from log_format.topic.pin_changes import DropExpiredPins
from log_format.topic.pins import Pin
from log_format.topic.state import TopicState


class PinUpkeep:
    """The pins of one topic. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(self, store: ObjectStore, log: TopicLog, committer: Committer[TopicState], report: Reporter) -> None:
        self._store = store
        self._log = log
        self._committer = committer
        self._report = report
        self._with_checkpoint: set[int] = set()
        """Pinned versions known to have their checkpoints."""
        self._held_back_bytes = 0
        """Bytes of stored files that only pins kept when files were last collected."""

    def run(self, *, is_dry_run: bool) -> None:
        """Drop the expired pins, and put missing checkpoints of the others."""
        state, now_ms = self._log.state, self._log.clock.now_ms()
        if not state.pins or state.topic_id is None:
            return
        if is_dry_run:
            for pin in state.pins:
                if pin.is_expired(now_ms):
                    self._report.event("would unpin", topic=state.topic, pin=pin.name, version=pin.version)
            return
        if any(pin.is_expired(now_ms) for pin in state.pins):
            for pin in self._committer.commit(DropExpiredPins(topic_id=state.topic_id)).result:
                self._report.event("unpin", topic=state.topic, pin=pin.name, version=pin.version)
        self._with_checkpoint &= {pin.version for pin in self._log.state.pins}
        self._put_checkpoints(self._log.state)

    def count(self, totals: Totals) -> None:
        """Add the pins to ``totals``, and the bytes that they held back when files were last collected."""
        pin_count = len(self._log.state.pins)
        totals.pins += pin_count
        totals.pinned_bytes += self._held_back_bytes if pin_count else 0

    def note_held_back(
        self, stored: Iterable[ObjectInfo], root: str, pinned: Collection[str], live: Collection[str]
    ) -> None:
        """Note which of the stored files below ``root`` only the pins keep, for ``count``."""
        paths = ((info.key.removeprefix(root), info.size_bytes) for info in stored) if pinned else ()
        self._held_back_bytes = sum(size for path, size in paths if path in pinned and path not in live)

    def paths(self, state: TopicState) -> set[str]:
        """Return the paths of all files that the pinned versions of ``state`` have. Nothing may be deleted if this raises."""
        self._put_checkpoints(state)
        found: set[str] = set()
        for pin in state.pins:
            with _naming(state, pin):
                found |= pinned_paths(self._store, state.topic, pin.version)
        return found

    def _put_checkpoints(self, state: TopicState) -> None:
        for pin in state.pins:
            if pin.version not in self._with_checkpoint:
                with _naming(state, pin):
                    keep_version(self._store, state.topic, pin.version, self._log.clock.now_ms())
                self._with_checkpoint.add(pin.version)


@contextmanager
def _naming(state: TopicState, pin: Pin) -> Iterator[None]:
    """Say of ``CorruptData`` which pin it concerns, and what ends it."""
    try:
        yield
    except CorruptData as problem:
        raise CorruptData(
            f"Pin {pin.name!r}: {problem.detail} Nothing of the topic is deleted until 'tidelog pin delete {state.topic} "
            f"{pin.name}'.",
            topic=state.topic,
        ) from problem
