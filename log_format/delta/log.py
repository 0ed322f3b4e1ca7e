"""The state of one table, loaded from its log and kept up to date.

Loading reads ``_last_checkpoint`` (a hint), lists the log from that checkpoint on, and reads the newest checkpoint and the
commits after it. Keeping the state up to date means asking for the next version's commit.

Clean-up may delete old commits between two refreshes. A reader must not mistake the resulting hole for the log's end, nor a late
PUT into the hole for a commit. So when the last refresh is older than ``HEAD_TRUSTED_MS``, an answer about a version counts only
if no checkpoint covers that version afterwards: clean-up deletes only what a checkpoint covers. Otherwise the log is loaded again
(docs/format.md, section 9).

If a listing has to read the whole log (``ObjectStore.lists_from_key`` is false), the commits after the hinted checkpoint are
probed instead. The result counts only if ``cleaned_log`` has no note above that checkpoint afterwards. The log is listed all the
same if there is no hint, a stale one, one whose checkpoint is gone, or a hole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Generic

from log_format import layout, limits
from log_format.clock import Clock
from log_format.delta.actions import Commit, decode_commit
from log_format.delta.checkpoint_file import is_own_checkpoint
from log_format.delta.checkpoint_hint import CheckpointHint, read_hint
from log_format.delta.cleaned_log import cleaned_below
from log_format.delta.log_retention import ListedLog
from log_format.delta.table import NO_LOG, StateT, TableDescription
from log_format.errors import CorruptData, ObjectMissing, StoreUnavailable, UnsupportedTable
from log_format.store import ObjectStore, read_bounded

Map = Callable[[Callable[[str], bytes], Iterable[str]], Iterator[bytes]]
"""Function like ``map`` that may make several calls in parallel; results come in order."""


class TableLog(Generic[StateT]):
    """The log of one table. Thread-safe: threads may refresh and commit concurrently, and each commit is applied once."""

    __slots__ = (
        "__weakref__",
        "_fetch_all",
        "_lock",
        "_observed_ms",
        "_on_change",
        "_probed_commits_max",
        "_state",
        "clock",
        "store",
        "table",
    )

    def __init__(
        self,
        store: ObjectStore,
        table: TableDescription[StateT],
        clock: Clock,
        *,
        fetch_all: Map = map,
        on_change: Callable[[StateT], None] | None = None,
        probed_commits_max: int = limits.PROBED_COMMITS_MAX,
    ) -> None:
        self.store = store
        self.table = table
        self.clock = clock
        self._fetch_all = fetch_all
        self._on_change = on_change
        self._probed_commits_max = probed_commits_max
        self._lock = threading.Lock()
        self._state = table.absent()
        self._observed_ms: int | None = None

    @property
    def state(self) -> StateT:
        """Newest known state; before the first ``refresh`` that of an absent table. Never raises."""
        return self._state

    @property
    def observed_ms(self) -> int | None:
        """Time (monotonic clock) at which the newest look that reached the log's head began; None before the first one."""
        return self._observed_ms

    def refresh(self) -> StateT:
        """Return the state at a version that was the head at some moment during this call.

        One request if nothing changed. Raises ``StoreUnavailable``, ``CorruptData``.
        """
        started_ms = self.clock.monotonic_ms()
        observed_ms = self._observed_ms
        state = self._state
        if observed_ms is None or state.version == NO_LOG:
            return self._load(started_ms)
        while True:
            version = self._state.version + 1
            try:
                commit = self._get_commit(version)
                asked_ms = self.clock.monotonic_ms()
                if asked_ms - observed_ms > limits.HEAD_TRUSTED_MS:
                    if self.may_be_cleaned(version):
                        return self._load(started_ms)
                    observed_ms = asked_ms
                if commit is None:
                    break
                self.apply(commit, version)
            except CorruptData:
                if self._is_covered(version):
                    return self._load(started_ms)  # a repair may have replaced it by a checkpoint
                raise
        self.observed(started_ms)
        return self._state

    def reload(self) -> StateT:
        """Load the newest checkpoint again and return the state at the head. Raises the same errors as ``refresh``."""
        return self._load(self.clock.monotonic_ms())

    def may_be_cleaned(self, version: int) -> bool:
        """Return whether clean-up may have deleted ``version``: a checkpoint covers it, or (in a directory) a note says so.

        One request. Raises ``StoreUnavailable``.
        """
        if not self.store.lists_from_key:
            return cleaned_below(self.store, self.table.root) > version
        return self._is_covered(version)

    def first_kept_version(self) -> int:
        """Return the first version from which the log has every commit, as far as one request tells; 0 if clean-up left no
        note. Below it there may be single versions that are pinned.

        For callers that need the log's length. Raises ``StoreUnavailable``.
        """
        if not self.store.lists_from_key:
            return cleaned_below(self.store, self.table.root)
        return ListedLog.of(self.store.list(layout.table_log_prefix(self.table.root))).first

    def apply(self, commit: Commit, version: int) -> StateT:
        """Apply a commit that is in the store; applying it again does nothing. Raises ``CorruptData``."""
        with self._lock:
            changed = version == self._state.version + 1
            if changed:
                self._state = self._state.apply(commit, version)
            state = self._state
        if changed and self._on_change is not None:
            self._on_change(state)
        return state

    def replace(self, before: StateT, after: StateT | None) -> bool:
        """Replace state ``before`` by ``after``, the known result of applying the next commit. Return False if nothing was
        replaced."""
        with self._lock:
            changed = after is not None and self._state is before
            if changed and after is not None:
                self._state = after
        if changed and after is not None and self._on_change is not None:
            self._on_change(after)
        return changed

    def observed(self, started_ms: int) -> None:
        """Record that a refresh begun at ``started_ms`` (monotonic clock) reached the head."""
        with self._lock:
            self._observed_ms = max(started_ms, self._observed_ms or started_ms)

    def _load(self, started_ms: int) -> StateT:
        state = self._load_whole()
        with self._lock:
            changed = state.version > self._state.version
            if changed:
                self._state = state
            state = self._state
        self.observed(started_ms)
        if changed and self._on_change is not None:
            self._on_change(state)
        return state

    def _load_whole(self) -> StateT:
        missing: str | None = None
        for _ in range(limits.LOAD_ATTEMPTS_MAX):
            started_ms = self.clock.monotonic_ms()
            state, missing = None, None
            try:
                state = self._replay()
            except ObjectMissing as problem:
                missing = problem.key  # deleted after the listing: a newer checkpoint covers it
            if self.clock.monotonic_ms() - started_ms > limits.LOAD_MS_MAX:
                missing = None
            elif state is not None:
                return state
        if missing is None:
            prefix = layout.table_log_prefix(self.table.root)
            raise StoreUnavailable(prefix, "the log can't be read fast enough to be trusted", may_have_happened=False)
        raise CorruptData(
            f"The log of {self.table.label} loses objects faster than it can be read.",
            object=missing,
            **self.table.fields,
        )

    def _replay(self) -> StateT:
        hint = read_hint(self.store, self.table.root)
        if hint is not None and not self.store.lists_from_key:
            probed = self._probe_head(hint)
            if probed is not None:
                return probed
        state, listed = self._newest_checkpoint(hint)
        versions = list(versions_without_gaps(listed, state.version + 1))
        keys = [layout.table_commit_key(self.table.root, version) for version in versions]
        try:
            for version, key, data in zip(versions, keys, self._fetch_all(self._commit_bytes, keys), strict=True):
                if version != state.version + 1:
                    raise self._is_missing(state.version + 1)
                state = state.apply(decode_commit(data, key), version)
        except ObjectMissing as problem:
            missing = layout.commit_version(problem.key)
            if missing is None or missing in listed:
                raise
            raise self._is_missing(missing) from problem
        return state

    def _is_covered(self, version: int) -> bool:
        """Return whether a listing shows a checkpoint of ``version`` or a later one."""
        start_after = layout.table_commit_key(self.table.root, version - 1) if version > 0 else ""
        listing = self.store.list(layout.table_log_prefix(self.table.root), start_after=start_after)
        return any(layout.checkpoint_version(info.key) is not None for info in listing)

    def _is_missing(self, version: int) -> CorruptData:
        key = layout.table_commit_key(self.table.root, version)
        return CorruptData(f"The log of {self.table.label} lacks version {version}.", object=key, **self.table.fields)

    def _probe_head(self, hint: CheckpointHint) -> StateT | None:
        """Return the state at the head, by probing commits after checkpoint ``hint``; None if only a listing can tell."""
        try:
            data = self._checkpoint_bytes(hint.key(self.table.root))
            if not is_own_checkpoint(data):
                return None
            state = self.table.read_checkpoint(data, hint.version)
        except UnsupportedTable:
            raise
        except (CorruptData, ObjectMissing):
            return None  # a listing shows another checkpoint
        for _ in range(self._probed_commits_max // limits.PROBES_AT_ONCE):
            first = state.version + 1
            found = self._probe(range(first, first + limits.PROBES_AT_ONCE))
            for version in range(first, first + len(found)):
                if version not in found:
                    return None  # a hole, or concurrent commits: only a listing can tell
                state = state.apply(found[version], version)
            if len(found) < limits.PROBES_AT_ONCE:
                return None if self.may_be_cleaned(hint.version + 1) else state
        return None

    def _probe(self, versions: range) -> dict[int, Commit]:
        """Return the commits among ``versions`` that exist."""
        missing: set[str] = set()

        def get(key: str) -> bytes:
            try:
                return self._commit_bytes(key)
            except ObjectMissing:
                missing.add(key)
                return b""

        keys = [layout.table_commit_key(self.table.root, version) for version in versions]
        return {
            version: decode_commit(data, key)
            for version, key, data in zip(versions, keys, self._fetch_all(get, keys), strict=True)
            if key not in missing
        }

    def _newest_checkpoint(self, hint: CheckpointHint | None) -> tuple[StateT, list[int]]:
        """Return the state at the newest checkpoint of Tidelog (absent without one), and the versions of the commits after it.

        Another program's checkpoint counts only if the log has neither one of ours nor its beginning. If a checkpoint is damaged,
        an older one or the log's beginning counts, provided that all commits since then are there.
        """
        prefix = layout.table_log_prefix(self.table.root)
        damage: CorruptData | None = None
        for start_after in ("",) if hint is None else (f"{prefix}{hint.version:020d}", ""):
            keys = [info.key for info in self.store.list(prefix, start_after=start_after)]
            found = [(version, key) for key in keys if (version := layout.checkpoint_version(key)) is not None]
            commits = [version for key in keys if (version := layout.commit_version(key)) is not None]
            for newest, key in sorted(found, reverse=True):
                try:
                    data = self._checkpoint_bytes(key)
                    if not is_own_checkpoint(data):
                        continue
                    state, after = self._load_at_checkpoint(data, newest, commits)
                except UnsupportedTable:
                    raise
                except CorruptData as problem:
                    damage = damage or problem
                    continue
                if damage is None or after == list(range(newest + 1, newest + 1 + len(after))):
                    return state, after
        if damage is not None and (not commits or commits[0] != 0):
            raise damage
        foreign = max(
            (one for one in found if one[1] == layout.table_checkpoint_key(self.table.root, one[0])), default=None
        )
        if foreign is not None and (not commits or commits[0] != 0):
            return self._load_at_checkpoint(self._checkpoint_bytes(foreign[1]), foreign[0], commits)
        return self.table.absent(), commits

    def _load_at_checkpoint(self, data: bytes, version: int, commits: list[int]) -> tuple[StateT, list[int]]:
        return self.table.read_checkpoint(data, version), [one for one in commits if one > version]

    def _get_commit(self, version: int) -> Commit | None:
        key = layout.table_commit_key(self.table.root, version)
        try:
            return decode_commit(self._commit_bytes(key), key)
        except ObjectMissing:
            return None

    def _commit_bytes(self, key: str) -> bytes:
        return read_bounded(self.store, key, limits.COMMIT_BYTES_MAX)

    def _checkpoint_bytes(self, key: str) -> bytes:
        return read_bounded(self.store, key, limits.CHECKPOINT_BYTES_MAX)


def versions_without_gaps(listed: Iterable[int], first: int) -> Iterator[int]:
    """Yield all versions from ``first`` to the last one listed, in order, but only the first few versions of a long gap."""
    for version in listed:
        yield from range(first, min(version, first + limits.PROBES_AT_ONCE))
        yield version
        first = version + 1
