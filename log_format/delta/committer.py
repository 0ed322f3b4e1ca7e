"""The conditional PUT of a commit, and the handling of everything that can go wrong with it (docs/format.md, section 6).

1. The committer proposes a change at the head, puts the change's segment, and puts the commit if absent at the next version.
2. It never trusts an answer that is not a plain success. It reads the object back, whose commit id says whose commit it is. SDKs,
   proxies and lost answers can make the committer's own commit look like another's.
3. It replays another committer's commit, and proposes the change again at the new head, including all validation.
4. Within one call it tries each version with one content only. So a try that arrives late writes this very commit.
5. It reports no refusal while a try may still arrive: it raises ``OutcomeUnknown``.
6. It checks a head that is older than ``HEAD_TRUSTED_MS`` before it builds on it. If the answer takes longer than that, log
   clean-up may have deleted another's commit at the version meanwhile. Then the answer counts only if no checkpoint covers the
   version, since clean-up deletes only what a checkpoint covers. If that can't be decided, the outcome is ``OutcomeUnknown``.
7. It never commits a segment uploaded more than ``SEGMENT_AGE_MAX_MS`` ago, since maintenance may be about to delete it as an
   orphan.
8. It refuses a change, or reports it as made already, only at a head that it has checked since the call began.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

import msgspec

from log_format import layout, limits
from log_format.delta.actions import CommitInfo, as_decoded_commit, decode_commit, encode_commit
from log_format.delta.change import Proposal, StagedFile, TableChange
from log_format.delta.foreign import is_own
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
from log_format.store import read_bounded
from log_format.version import __version__

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Generic[StateT, ResultT]):
    """A committed change: a state that includes the change, its result, and how many versions were tried.

    ``staged_ms``: how long it took to propose and upload what was not uploaded before; None if everything was.
    """

    state: StateT
    result: ResultT
    attempts: int
    staged_ms: int | None = None


class _Holder(Enum):
    OURS = "ours"
    FOREIGN = "foreign"
    NONE = "none"
    UNKNOWN = "unknown"


class Committer(Generic[StateT]):
    """The committer of changes to one table. One thread at a time may use it; many committers, in any processes, may share a
    table."""

    __slots__ = (
        "_clock",
        "_commit_bytes_max",
        "_engine",
        "_in_doubt",
        "_jitter",
        "_log",
        "_new_id",
        "_store",
        "_table",
    )

    def __init__(
        self,
        log: TableLog[StateT],
        *,
        new_id: NewId,
        jitter: Callable[[], float] = random.random,
        engine: str = "tidelog",
        commit_bytes_max: int = limits.COMMIT_BYTES_MAX,
    ) -> None:
        self._log = log
        self._table = log.table
        self._store = log.store
        self._clock = log.clock
        self._new_id = new_id
        self._jitter = jitter
        assert is_own(f"{engine}/"), "a reader would not believe its commits"
        self._engine = engine
        self._commit_bytes_max = commit_bytes_max
        self._in_doubt = False

    def stage(self, segment: StagedFile) -> None:
        """Put a segment before its commit, when readers do not see it yet. Raises ``BackOff``."""
        started_ms = self._clock.monotonic_ms()
        try:
            self._store.put(f"{self._table.root}{segment.path}", segment.data)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not accept a segment: {problem.detail}.") from problem
        segment.uploaded_at_ms = started_ms

    def commit(self, change: TableChange[StateT, ResultT]) -> Committed[StateT, ResultT]:
        """Make the change once, on top of the log's head at that moment.

        Raises what ``change.propose`` raises; ``BackOff`` if the store fails or other committers are faster (nothing happened);
        ``OutcomeUnknown`` if the change may have happened; ``CorruptData`` if the log can't be read.
        """
        commit_id = self._new_id()
        looked = self._look_if_old()
        attempts, staged_ms = 0, None
        for _ in range(limits.COMMIT_ATTEMPTS_MAX):
            state = self._log.state
            observed_ms = self._log.observed_ms
            began_ms = self._clock.monotonic_ms()
            try:
                proposal = change.propose(state, self._clock.now_ms())
            except TidelogError:
                if looked:
                    raise
                proposal = None
            if proposal is not None and (proposal.actions or proposal.tags):
                is_uploaded = proposal.segment is None or proposal.segment.uploaded_at_ms is not None
                if not self._is_segment_ready(proposal.segment):
                    continue
                if not is_uploaded:
                    staged_ms = (staged_ms or 0) + self._clock.monotonic_ms() - began_ms
                attempts += 1
                if self._publish(proposal, commit_id, state, observed_ms):
                    return Committed(
                        state=self._log.state, result=proposal.result, attempts=attempts, staged_ms=staged_ms
                    )
            elif proposal is not None and looked:
                return Committed(state=state, result=proposal.result, attempts=attempts)
            self._look()
            looked = True
        raise BackOff(
            f"Other committers were faster {limits.COMMIT_ATTEMPTS_MAX} times in a row on {self._table.label}.",
            **self._table.fields,
        )

    def _is_segment_ready(self, segment: StagedFile | None) -> bool:
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
        """Put the commit at the version after ``state``. Return True if it is there, False if another committer's commit is."""
        version = state.version + 1
        key = layout.table_commit_key(self._table.root, version)
        info = CommitInfo(
            timestamp=self._clock.now_ms(),
            operation=proposal.operation,
            operation_parameters={},
            engine_info=f"{self._engine}/{__version__}",
            txn_id=commit_id,
            tags=msgspec.UNSET if proposal.tags is None else dict(proposal.tags),
        )
        data = encode_commit(info, proposal.actions)
        if len(data) > self._commit_bytes_max:
            raise BackOff(
                f"A commit of {len(data)} bytes to {self._table.label} is more than readers accept ({self._commit_bytes_max}).",
                **self._table.fields,
            )
        started_ms = self._clock.monotonic_ms()
        uncertain, refusal = False, None
        for attempt in range(limits.READ_BACK_ATTEMPTS_MAX):
            if attempt:
                self._pause(attempt)
            try:
                self._store.put_if_absent(key, data)
                holder = _Holder.OURS
            except ObjectExists:
                holder = self._read_back(key, commit_id)
                uncertain = True  # it may be ours until it is read: a proxy may have repeated the request
            except StoreUnavailable as problem:
                uncertain, refusal = uncertain or problem.may_have_happened, problem
                holder = self._read_back(key, commit_id) if uncertain else _Holder.UNKNOWN
            if holder is _Holder.FOREIGN:
                if self._may_be_cleaned(version, started_ms):
                    raise self._unknown(version)
                return False
            if holder is _Holder.OURS:
                if self._was_put_in_cleaned_gap(version, observed_ms, started_ms):
                    return False
                if not self._log.replace(state, proposal.after):
                    self._log.apply(as_decoded_commit(info, proposal.actions, proposal.content), version)
                self._log.observed(started_ms)
                return True
        if uncertain:
            raise self._unknown(version)
        assert refusal is not None, "each attempt was refused"
        raise BackOff(
            f"The store accepted no commit for {self._table.label}: {refusal.detail}.", **self._table.fields
        ) from refusal

    def _read_back(self, key: str, commit_id: str) -> _Holder:
        try:
            found = decode_commit(read_bounded(self._store, key, limits.COMMIT_BYTES_MAX), key)
        except ObjectMissing:
            return _Holder.NONE
        except StoreUnavailable:
            return _Holder.UNKNOWN
        return _Holder.OURS if found.commit_id == commit_id else _Holder.FOREIGN

    def _was_put_in_cleaned_gap(self, version: int, observed_ms: int | None, started_ms: int) -> bool:
        """Return whether our commit was put at a version that clean-up had emptied: possible only if we slept since the last
        check."""
        if observed_ms is None or not self._may_be_cleaned(version, observed_ms):
            return False
        try:
            # Clean-up is not so quick: a commit that had this version when we put ours would still be there.
            is_quick = self._clock.monotonic_ms() - started_ms <= limits.HEAD_TRUSTED_MS
            if not is_quick or (version > 0 and self._exists(layout.table_commit_key(self._table.root, version - 1))):
                raise self._unknown(version)
            # Readers do not see our commit there: they begin at a later checkpoint, and go on with commits that no checkpoint
            # covers.
            self._log.reload()
        except StoreUnavailable as problem:
            raise self._unknown(version) from problem
        return True

    def _may_be_cleaned(self, version: int, since_ms: int) -> bool:
        """Return whether clean-up may have deleted a commit of ``version`` that was put after ``since_ms`` (monotonic clock)."""
        if self._clock.monotonic_ms() - since_ms <= limits.HEAD_TRUSTED_MS:
            return False
        try:
            return self._log.may_be_cleaned(version)
        except StoreUnavailable as problem:
            raise self._unknown(version) from problem

    def _unknown(self, version: int) -> OutcomeUnknown:
        self._in_doubt = True
        return OutcomeUnknown(
            f"The store did not say whether it has version {version} of {self._table.label}.",
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
            raise BackOff(f"The store did not return {self._table.label}: {problem.detail}.") from problem
        self._in_doubt = False

    def _pause(self, attempt: int) -> None:
        longest_ms = min(limits.BACKOFF_LAST_MS, limits.BACKOFF_FIRST_MS * 2 ** (attempt - 1))
        self._clock.sleep_ms(int(longest_ms * (0.5 + self._jitter() / 2)))
