"""Requests to erase what a topic has of a person: recorded in the topic's log, for maintenance to carry out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import Pool
from gateway.engine.producer_ids import ProducerIds
from log_format.checkpoints.clone_notes import CLONES_MAX, CloneName, noted_clones
from log_format.checkpoints.erasure_notes import note_request, read_notes
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, StoreUnavailable, TidelogError
from log_format.records.condition import Condition
from log_format.records.condition_syntax import ConditionError
from log_format.records.erasing import Matcher, digest_of, hide_condition
from log_format.store import ObjectStore
from log_format.topic.config import Subjects
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, hide_hash, note_key
from log_format.topic.state import TopicState

FINISHED_SHOWN_MAX: Final = 100
"""Number of finished requests that a list shows, the newest ones: each is an object to read."""
HASHED_BYTES_MAX: Final = 64 * 1024
"""Most bytes of a request's keys that are hashed for filters, which takes some 10 ms; with more, segments are read whole."""


class ShownErasure(NamedTuple):
    """A request and when nothing of what it erased was left. ``grace_ms``: how long old files stay."""

    erasure: Erasure
    grace_ms: int
    gone_ms: int | None = None


class Erasures:
    """The requests of this gateway's callers. Used on the event loop only."""

    def __init__(
        self, topics: OpenTopics, access: TableAccess, ids: ProducerIds, *, cold_store: ObjectStore, cold_pool: Pool
    ) -> None:
        self._topics = topics
        self._access = access
        self._ids = ids
        self._store = cold_store
        self._pool = cold_pool

    async def request(
        self,
        name: str,
        keys: Sequence[bytes],
        headers: Sequence[tuple[str, bytes]],
        before_ms: int | None,
        *,
        within: tuple[str, bytes] | None = None,
        where: Condition | None = None,
        judged_by: Subjects | None = None,
    ) -> ShownErasure:
        """Record a request about records that the topic has now; return it.

        Args:
            name: the topic.
            keys: keys of the records that are meant.
            headers: names and values: records with any of these headers are meant.
            before_ms: only records with earlier timestamps; None: all.
            within: name and value of a header that the records have, too; None: any records.
            where: condition on typed columns: records for which it holds are meant, too; None: no more than those.
            judged_by: subjects by which the condition is judged, those of the topic from which letters came; None: the topic's.

        Raises ``UnknownTopic``, ``RequestRefused`` for no or too many keys and for a condition on columns that the table lacks,
        ``BackOff``, ``OutcomeUnknown``, and what
        ``OpenTopic.commit`` raises.
        """
        topic = await self._topics.fresh(name, self._access.clock.monotonic_ms(), always=True)
        state = topic.require_state()
        if where is not None and judged_by is None:
            _check(name, where, state)
        secret = await self._ids.cluster_key()
        wanted = [Matcher(digest_of(secret, key)) for key in keys]
        wanted += [Matcher(digest_of(secret, value, header), header) for header, value in headers]
        hashed = dict.fromkeys(keys if sum(map(len, keys)) <= HASHED_BYTES_MAX else ())
        now_ms = self._access.clock.now_ms()
        erasure = Erasure(
            erasure_id=f"e{now_ms:012x}-{self._access.new_id()}",
            requested_ms=now_ms,
            wanted=tuple(dict.fromkeys(wanted)),
            before_ms=before_ms,
            hidden_hashes=tuple(hide_hash(secret, key) for key in hashed),
            where=None if where is None else hide_condition(secret, where),
            judged_by=None if judged_by is None else (judged_by.value, judged_by.key),
            within=None if within is None else Matcher(digest_of(secret, within[1], within[0]), within[0]),
            keep="key" if state.config.choice("erase.keep") == "key" else "nothing",
        )
        change = RequestErasure(topic_id=state.existing_id, erasure=erasure)
        await self._note(name, change)
        try:
            committed = await topic.moving.change(lambda move: replace(change, move=move), is_drained=True)
        except OutcomeUnknown:
            raise
        except TidelogError as problem:
            await self._withdraw_note(name, change, problem)
            raise
        return _shown(committed.state, committed.result)

    async def subjects(self, name: str, where: Condition) -> Subjects:
        """Return the subjects by whose schemas a condition is judged in topics that have letters of this one.

        Raises ``UnknownTopic``, ``RequestRefused`` for a condition on columns that the table lacks, and what
        ``OpenTopics.fresh`` raises.
        """
        topic = await self._topics.fresh(name, self._access.clock.monotonic_ms(), always=True)
        state = topic.require_state()
        _check(name, where, state)
        return state.config.subjects

    async def clones(self, name: str, limit: int = CLONES_MAX) -> list[str] | None:
        """Return the names of the topic's clones, and of clones of these, at most ``limit``; None if the store does not tell.

        Never raises: a request was recorded before.
        """
        try:
            topic = await self._topics.fresh(name, self._access.clock.monotonic_ms())
            source = CloneName(name, topic.require_state().existing_id)
            noted = await self._pool.run(lambda: list(islice(noted_clones(self._store, source), limit)))
            states = [(await self._topics.fresh(one.name, self._access.clock.monotonic_ms())).state for one in noted]
        except (StoreUnavailable, TidelogError):
            return None
        return [one.name for one, state in zip(noted, states, strict=True) if state.topic_id == one.topic_id]

    async def list(self, name: str) -> list[ShownErasure]:
        """Return the topic's requests, oldest first: all that are not finished, and the newest finished ones.

        Raises ``UnknownTopic``, ``BackOff``, ``CorruptData``.
        """
        topic = await self._topics.fresh(name, self._access.clock.monotonic_ms())
        await topic.fresh_with_table()
        state = topic.require_own_state()
        open_ids = {one.erasure_id for one in state.erasures}
        finding = partial(read_notes, self._store, name, state.existing_id, without=open_ids, newest=FINISHED_SHOWN_MAX)
        try:
            notes = await self._pool.run(lambda: list(finding()))
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return requests to erase: {problem.detail}.", topic=name) from problem
        grace_ms = state.config.integer("erase.grace.ms")
        shown = [ShownErasure(one.erasure, grace_ms, one.gone_ms) for one in notes if one.gone_ms is not None]
        return [*shown, *(_shown(state, one) for one in state.erasures)]

    async def find(self, name: str, erasure_id: str) -> ShownErasure:
        """Return one request. Raises ``RequestRefused`` (``UNKNOWN_ERASURE``), and what ``list`` raises."""
        found = next((one for one in await self.list(name) if one.erasure.erasure_id == erasure_id), None)
        if found is None:
            raise RequestRefused(
                f"Topic {name!r} has no request to erase {erasure_id[:100]!r}, or it was finished long ago: a list shows the "
                f"newest {FINISHED_SHOWN_MAX} finished ones.",
                code=ErrorCode.UNKNOWN_ERASURE,
                topic=name,
            )
        return found

    async def _note(self, name: str, change: RequestErasure) -> None:
        put = partial(note_request, self._access.store, name, change.topic_id, change.erasure)
        try:
            await self._access.write_pool.run(put)
        except StoreUnavailable as problem:
            detail = f"The store did not take the note of a request to erase: {problem.detail}."
            if problem.may_have_happened:
                raise OutcomeUnknown(f"{detail} Ask again.", topic=name) from problem
            raise BackOff(detail, topic=name) from problem

    async def _withdraw_note(self, name: str, change: RequestErasure, refusal: TidelogError) -> None:
        """Delete the note of a request that was not recorded. Raises ``OutcomeUnknown`` if it may still be there."""
        key = note_key(name, change.erasure.erasure_id)
        try:
            await self._access.write_pool.run(self._access.store.delete, key)
        except StoreUnavailable as problem:
            raise OutcomeUnknown(
                f"The request to erase was not recorded ({refusal.detail}), but its note may still be there, by which restored "
                "backups are erased. Ask again.",
                topic=name,
            ) from problem


def _check(name: str, where: Condition, state: TopicState) -> None:
    try:
        where.check(state.columns)
    except ConditionError as problem:
        raise RequestRefused(f"Nothing of topic {name!r} is erased. {problem}", topic=name) from problem


def _shown(state: TopicState, erasure: Erasure) -> ShownErasure:
    return ShownErasure(erasure, state.config.integer("erase.grace.ms"))
