"""The conditional PUT, and everything that can go wrong with it (docs/format.md, section 6).

1. A change is proposed at the head, its segment is put, and the commit is put if absent at the next version.
2. An answer that is not a plain success is never believed: the object is read back, and the commit id in it says whose it
   is. SDKs, proxies and lost answers make one's own commit look like somebody else's.
3. Somebody else's commit is replayed and the change is proposed again at the new head, validation included.
4. Within one call a version is only ever tried with one content, so a late-arriving try of ours is this very commit.
5. Nothing is reported as refused while a try of it may still arrive: that is ``OutcomeUnknown``.
6. A head that was not looked at for ``HEAD_TRUSTED_MS`` is looked at again before it is built upon. When longer passed until
   the answer came, log clean-up may have emptied the version meanwhile: then an answer counts only as long as no checkpoint
   covers that version, since clean-up deletes nothing that no checkpoint covers. What can't be told is ``OutcomeUnknown``.
7. A segment uploaded more than ``SEGMENT_AGE_MAX_MS`` ago is never committed: a collector of orphans may be about to delete it.
8. A change is refused, or found to be fulfilled already, only by a head that was looked at since the call began.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from log_format import layout, limits
from log_format.bounded_read import read_bounded
from log_format.delta.actions import CommitInfo, decode_commit, encode_commit
from log_format.delta.change import Proposal, StagedFile, TableChange
from log_format.delta.log import TableLog
from log_format.delta.table import StateT
from log_format.errors import (
    BackOff,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
    StoreUnavailable,
    TidelogError,
)
from log_format.ids import NewId
from log_format.version import __version__

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Generic[StateT, ResultT]):
    """A change that stands in the store: the state that shows it, what it did, and how many versions were tried."""

    state: StateT
    result: ResultT
    attempts: int


class _Holder(Enum):
    OURS = "ours"
    FOREIGN = "foreign"
    NOBODY = "nobody"
    UNKNOWN = "unknown"


class Committer(Generic[StateT]):
    """Commits changes to one table. One thread at a time; any number of committers in any processes may share the table."""

    def __init__(
        self,
        log: TableLog[StateT],
        *,
        new_id: NewId,
        jitter: Callable[[], float] = random.random,
        engine: str = "tidelog",
    ) -> None:
        self._log = log
        self._table = log.table
        self._store = log.store
        self._clock = log.clock
        self._new_id = new_id
        self._jitter = jitter
        self._engine_info = f"{engine}/{__version__}"
        self._in_doubt = False

    def stage(self, segment: StagedFile) -> None:
        """Put a segment ahead of its commit. Nothing is visible by it. Raises ``BackOff``."""
        started_ms = self._clock.monotonic_ms()
        try:
            self._store.put(f"{self._table.root}{segment.path}", segment.data)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not take a segment: {problem.detail}.") from problem
        segment.uploaded_at_ms = started_ms

    def commit(self, change: TableChange[StateT, ResultT]) -> Committed[StateT, ResultT]:
        """Make the change, once, on top of whatever the head is by then.

        Raises what ``change.propose`` raises; ``BackOff`` when the store can't do it or others are too fast (nothing happened);
        ``OutcomeUnknown`` when it may have happened; ``CorruptData`` when the log can't be read.
        """
        commit_id = self._new_id()
        looked = self._look_if_old()
        attempts = 0
        for _ in range(limits.COMMIT_ATTEMPTS_MAX):
            state = self._log.state
            observed_ms = self._log.observed_ms
            try:
                proposal = change.propose(state, self._clock.now_ms())
            except TidelogError:
                if looked:
                    raise
                proposal = None
            if proposal is not None and proposal.actions:
                if not self._segment_is_ready(proposal.segment):
                    continue
                attempts += 1
                if self._publish(proposal, commit_id, state, observed_ms):
                    return Committed(state=self._log.state, result=proposal.result, attempts=attempts)
            elif proposal is not None and looked:
                return Committed(state=state, result=proposal.result, attempts=attempts)
            self._look()
            looked = True
        raise BackOff(
            f"Other committers were faster {limits.COMMIT_ATTEMPTS_MAX} times in a row on {self._table.label}.",
            **self._table.fields,
        )

    def _segment_is_ready(self, segment: StagedFile | None) -> bool:
        if segment is None:
            return True
        if segment.uploaded_at_ms is None:
            self.stage(segment)
        assert segment.uploaded_at_ms is not None
        if self._clock.monotonic_ms() - segment.uploaded_at_ms <= limits.SEGMENT_AGE_MAX_MS:
            return True
        segment.is_too_old = True
        return False

    def _publish(self, proposal: Proposal[ResultT], commit_id: str, state: StateT, observed_ms: int | None) -> bool:
        """Put the commit at the version behind ``state``. True: it is there and ours. False: somebody else's is."""
        version = state.version + 1
        key = layout.table_commit_key(self._table.root, version)
        info = CommitInfo(
            timestamp=self._clock.now_ms(),
            operation=proposal.operation,
            operation_parameters={},
            engine_info=self._engine_info,
            txn_id=commit_id,
        )
        data = encode_commit(info, proposal.actions)
        if len(data) > limits.COMMIT_BYTES_MAX:
            raise BackOff(
                f"A commit of {len(data)} bytes to {self._table.label} is more than a reader takes ({limits.COMMIT_BYTES_MAX}).",
                **self._table.fields,
            )
        started_ms = self._clock.monotonic_ms()
        uncertain = False
        for attempt in range(limits.READ_BACK_ATTEMPTS_MAX):
            if attempt:
                self._pause(attempt)
            try:
                self._store.put_if_absent(key, data)
                holder = _Holder.OURS
            except ObjectExists:
                holder = self._read_back(key, commit_id)
                uncertain = True  # until it is read, it may be ours: somebody on the way may have sent it twice
            except StoreUnavailable as problem:
                uncertain = uncertain or problem.may_have_happened
                holder = self._read_back(key, commit_id) if uncertain else _Holder.UNKNOWN
            if holder is _Holder.FOREIGN:
                if self._may_be_cleaned(version, started_ms):
                    raise self._unknown(version)
                return False
            if holder is _Holder.OURS:
                if self._landed_in_a_hole(version, observed_ms, started_ms):
                    return False
                self._log.apply(decode_commit(data, key), version)
                self._log.observed(started_ms)
                return True
        if uncertain:
            raise self._unknown(version)
        raise BackOff(f"The store took no commit for {self._table.label}.", **self._table.fields)

    def _read_back(self, key: str, commit_id: str) -> _Holder:
        try:
            found = decode_commit(read_bounded(self._store, key, limits.COMMIT_BYTES_MAX), key)
        except ObjectMissing:
            return _Holder.NOBODY
        except StoreUnavailable:
            return _Holder.UNKNOWN
        return _Holder.OURS if found.commit_id == commit_id else _Holder.FOREIGN

    def _landed_in_a_hole(self, version: int, observed_ms: int | None, started_ms: int) -> bool:
        """Whether our commit was put where clean-up had deleted one: possible only when we slept since the last look."""
        if observed_ms is None or not self._may_be_cleaned(version, observed_ms):
            return False
        try:
            # Had it landed behind a commit that stood there, that one would still stand: clean-up is not so quick.
            is_quick = self._clock.monotonic_ms() - started_ms <= limits.HEAD_TRUSTED_MS
            if not is_quick or (version > 0 and self._exists(layout.table_commit_key(self._table.root, version - 1))):
                raise self._unknown(version)
            # Nobody reads it there: readers begin at a checkpoint above, and go on only from what no checkpoint covers.
            self._log.reload()
        except StoreUnavailable as problem:
            raise self._unknown(version) from problem
        return True

    def _may_be_cleaned(self, version: int, since_ms: int) -> bool:
        """Whether clean-up may have deleted a commit of ``version`` that was put after ``since_ms`` (monotonic)."""
        if self._clock.monotonic_ms() - since_ms <= limits.HEAD_TRUSTED_MS:
            return False
        try:
            return self._log.may_be_cleaned(version)
        except StoreUnavailable as problem:
            raise self._unknown(version) from problem

    def _unknown(self, version: int) -> OutcomeUnknown:
        self._in_doubt = True
        return OutcomeUnknown(
            f"The store did not say whether version {version} of {self._table.label} stands.",
            **self._table.fields,
        )

    def _exists(self, key: str) -> bool:
        try:
            self._store.head(key)
        except ObjectMissing:
            return False
        return True

    def _look_if_old(self) -> bool:
        observed_ms = self._log.observed_ms
        is_old = observed_ms is None or self._clock.monotonic_ms() - observed_ms > limits.HEAD_TRUSTED_MS
        if is_old or self._in_doubt:
            self._look()
            return True
        return False

    def _look(self) -> None:
        try:
            self._log.refresh()
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show {self._table.label}: {problem.detail}.") from problem
        self._in_doubt = False

    def _pause(self, attempt: int) -> None:
        longest_ms = min(limits.BACKOFF_LAST_MS, limits.BACKOFF_FIRST_MS * 2 ** (attempt - 1))
        self._clock.sleep_ms(int(longest_ms * (0.5 + self._jitter() / 2)))
