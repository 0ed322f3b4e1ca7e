"""A query's progress, committed as the offsets of a group (``groupId``), where other programs look for it.

It serves operators and alarms: the query itself uses its checkpoint. A failed commit is retried with the next batch. Commits
run concurrently with the query and delay no batch; while one is under way, only the newest position waits. The group must have
no members: with members, only they may commit.
"""

from __future__ import annotations

import logging
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import TidelogError
from log_format.groups.changes import CommitOffsets, Decide
from log_format.groups.row import OffsetRow
from log_format.groups.state import consumer_offsets_table
from log_format.store import ObjectStore
from spark_pipeline.source.offsets import Positions
from spark_pipeline.source.topics import TopicsView

_log = logging.getLogger("spark_pipeline.source")


class GroupProgress:
    """Committer of positions for one group. ``note`` never blocks and never raises."""

    def __init__(self, store: ObjectStore, group: str) -> None:
        self._group = group
        self._clock = SystemClock()
        self._committer = Committer(
            TableLog(store, consumer_offsets_table(), self._clock), new_id=_new_id, engine="tidelog-spark"
        )
        self._lock = threading.Lock()
        self._newest: tuple[OffsetRow, ...] = ()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidelog-group-progress")

    def note(self, end: Positions, view: TopicsView) -> None:
        """Commit soon that the query has processed everything before ``end``."""
        now_ms = self._clock.now_ms()
        rows = tuple(
            OffsetRow(
                group=self._group,
                topic=topic,
                partition=partition,
                topic_id=str(view.states[topic].topic_id),
                offset=offset,
                committed_at_ms=now_ms,
            )
            for topic, of in end.items()
            if topic in view.states
            for partition, offset in of.items()
        )
        with self._lock:
            self._newest = rows
        self._pool.submit(self._commit)

    def settle(self) -> None:
        """Wait until the noted position is committed, or the attempt has failed."""
        self._pool.submit(lambda: None).result()

    def close(self) -> None:
        """Commit the last noted position, and end."""
        self._pool.shutdown()

    def _commit(self) -> None:
        with self._lock:
            rows, self._newest = self._newest, ()
        if not rows:
            return
        try:
            decision = CommitOffsets(group=self._group, offsets=rows)
            (outcome,) = self._committer.commit(Decide([decision], _new_id)).result
            refused = outcome if isinstance(outcome, TidelogError) else None
        except TidelogError as failed:
            refused = failed
        if refused is not None:
            _log.warning("the progress of group %s is not committed: %s", self._group, refused.detail)


def _new_id() -> str:
    return uuid.uuid4().hex
