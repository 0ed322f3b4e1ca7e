"""A system table in memory that is committed to, compacted and checkpointed while another log follows it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock


class FollowedTable:
    """A table in a store of its own.

    Args:
        table: makes the table.
        root: its root in the store.
        content: what of a state does not depend on how the log was read.
        compact: its ``CompactTable``.
    """

    def __init__(
        self, table: Callable[[], Any], root: str, content: Callable[[Any], object], compact: Callable[..., Any]
    ) -> None:
        self._table = table
        self._root = root
        self._content = content
        self._compact = compact
        self._ids = count()
        self.store = MemoryStore()
        self.clock = ManualClock()
        self._log, self._follower = (TableLog(self.store, table(), self.clock) for _ in range(2))
        self._committer = Committer(self._log, new_id=self.new_id)

    @property
    def state(self) -> Any:
        """The state of the log that commits."""
        return self._log.state

    def new_id(self) -> str:
        """A new id."""
        return f"id-{next(self._ids)}"

    def commit(self, change: Any) -> Any:
        """Commit the change; return its result."""
        return self._committer.commit(change).result

    def act(self, what: str) -> None:
        """``pass``: a second passes. ``checkpoint``, ``compact``: once the table has a commit; the content stays."""
        before = self._content(self.state)
        if what == "pass":
            self.clock.pass_ms(1_000)
        elif self.state.version < 0:
            return
        elif what == "checkpoint":
            write_table_checkpoint(self.store, self._root, self.state.version, self.clock.now_ms())
        else:
            self.commit(self._compact(self.new_id, files_min=1))
            assert len(self.state.files) <= 1
        assert self._content(self.state) == before

    def assert_followed(self) -> None:
        """The committing log takes its own state after a commit, the follower replays what was written: both are the same."""
        assert self._content(self._follower.refresh()) == self._content(self.state)
        for each in ("files", "version", "modification_time_ms", "memory_bytes"):
            assert getattr(self._follower.state, each) == getattr(self.state, each)

    def loaded_anew(self) -> Any:
        """The state of a log that is loaded now, which is the same."""
        fresh = TableLog(self.store, self._table(), self.clock).refresh()
        assert (fresh.version, fresh.files) == (self.state.version, self.state.files)
        assert self._content(fresh) == self._content(self.state)
        return fresh
