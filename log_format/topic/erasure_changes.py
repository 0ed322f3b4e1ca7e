"""Changes to a topic by erasures: a request, the rewrites that carry it out, its end.

1. A request's commit says up to which offsets it is about: the next offsets there.
2. A rewrite of an erasure is validated like any other, counts what it erased in the same commit, and says by a ``txn``
   ``erased-<partition>`` up to which offset a server must not answer from memory.
3. A request counts as carried out only in a table whose every segment with records below those offsets was looked at, in the
   archive as in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from log_format.delta.actions import Action, Txn
from log_format.delta.change import Proposal
from log_format.delta.table import NO_LOG
from log_format.errors import BackOff, RequestRefused, TidelogError
from log_format.topic.archiving import RewriteArchived
from log_format.topic.attachment import NO_MOVE, TopicMove
from log_format.topic.changes import check_incarnation, moved_metadata
from log_format.topic.erasures import Erasure, encode_erasures
from log_format.topic.partition_offsets import ERASED_APP_ID
from log_format.topic.rewrite import Rewrite, RewriteOutcome
from log_format.topic.state import TopicState
from log_format.topic.table_columns import protocol_of

ERASURE_KEYS_MAX: Final = 1_000
"""Most keys and header values of one request: its commit names each in about 50 bytes."""

ERASURES_BYTES_MAX: Final = 1024 * 1024
"""Largest property with unfinished requests: every commit of settings, and of a rewrite for them, has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestErasure:
    """A change that records a request, in the incarnation ``topic_id``. The result is the request as it is recorded.

    Args:
        topic_id: the incarnation.
        erasure: the request; with ``ends`` only records below these offsets are meant. Made twice, it is recorded once.
        move: what becomes of the topic's journal.
        is_restored: the topic is a restored copy, whose delayed records may name versions of the original's log.
    """

    topic_id: str
    erasure: Erasure
    move: TopicMove = NO_MOVE
    is_restored: bool = False

    def __post_init__(self) -> None:
        """Raise ``RequestRefused`` for a request about nothing, or about too much."""
        least = 1 if self.erasure.where is None else 0
        if not least <= len(self.erasure.wanted) <= ERASURE_KEYS_MAX:
            what = f"{least} to {ERASURE_KEYS_MAX} keys or headers"
            raise RequestRefused(f"A request to erase names {what}, not {len(self.erasure.wanted)}.")

    def propose(self, state: TopicState, now_ms: int) -> Proposal[Erasure]:
        """Propose the table's metadata with the request. Raises ``UnknownTopic``, ``TopicMoved``, and ``BackOff`` if too many
        requests wait for maintenance."""
        check_incarnation(state, self.topic_id)
        known = next((one for one in state.erasures if one.erasure_id == self.erasure.erasure_id), None)
        if known is not None:
            return Proposal(operation="ERASE", actions=(), result=known)
        self.move.check(state)
        ends = tuple(state.next_offsets.tolist())
        if self.erasure.ends:
            ends = tuple(map(min, self.erasure.ends, ends))
        version = None if self.is_restored else state.version + 1
        wanted = msgspec.structs.replace(self.erasure, ends=ends, requested_ms=now_ms, version=version)
        altered = replace(state, erasures=(*state.erasures, wanted), has_table_feature=True)
        if sum(map(len, encode_erasures(altered.erasures).values())) > ERASURES_BYTES_MAX:
            raise BackOff(
                f"Topic {state.topic!r} has {len(state.erasures)} requests to erase that maintenance has not finished: this one "
                "was not taken. Run 'tidelog maintain', and ask again.",
                topic=state.topic,
            )
        return Proposal(operation="ERASE", actions=_table_actions(state, altered, self.move), result=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseSegments:
    """A rewrite without what requests erase. The result is the rewrite's.

    Args:
        rewrite: the rewrite, whose new segments lack it.
        counts: erasure id -> how many records of the sources it erased.
        partitions: the partitions of the sources.
        size_bytes: stored bytes of the sources.
    """

    rewrite: Rewrite | RewriteArchived
    counts: Mapping[str, int]
    partitions: Collection[int]
    size_bytes: int

    def propose(self, state: TopicState, now_ms: int) -> Proposal[RewriteOutcome]:
        """Propose the rewrite, the counts and the end of what memory may answer. Never raises."""
        proposal = self.rewrite.propose(state, now_ms)
        if proposal.result is not RewriteOutcome.COMMITTED:
            return proposal
        erasures = tuple(self._counted(one) for one in state.erasures)
        ends = [one.ends for one in state.erasures if one.erasure_id in self.counts]
        erased = {
            partition: max((some[partition] for some in ends if partition < len(some)), default=0)
            for partition in self.partitions
        }
        txns = [
            Txn(app_id=f"{ERASED_APP_ID}{partition}", version=end, last_updated=now_ms)
            for partition, end in sorted(erased.items())
            if end > state.erased_ends[partition]
        ]
        altered = replace(state, erasures=erasures)
        metadata: list[Action] = [moved_metadata(altered, TopicMove(to=state.attachment))]
        return replace(proposal, operation="ERASE", actions=[*metadata, *proposal.actions, *txns])

    def _counted(self, erasure: Erasure) -> Erasure:
        count = self.counts.get(erasure.erasure_id, 0)
        if not count:
            return erasure
        return msgspec.structs.replace(
            erasure,
            record_count=erasure.record_count + count,
            size_bytes=erasure.size_bytes + self.size_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishErasures:
    """A change that notes that the table has nothing left of these requests. The result is whether that is so.

    ``clean``: paths of the segments in which nothing of them is. Any other segment with records that they may be about refutes
    it, for example a merge that was committed meanwhile. ``archive_version``: version of the archive in which nothing of them is;
    a later change of it refutes it, too.
    """

    topic_id: str
    erasure_ids: Collection[str]
    clean: Collection[str]
    archive_version: int = NO_LOG

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """Propose the version and time; no actions if something may be left, or another incarnation is there. Never raises."""
        done = [one for one in state.erasures if one.erasure_id in self.erasure_ids and not one.is_rewritten]
        if state.topic_id != self.topic_id or not done:
            return Proposal(operation="ERASE", actions=(), result=True)
        if state.archive.segment_count and state.archive.version != self.archive_version:
            return Proposal(operation="ERASE", actions=(), result=False)
        clean = set(self.clean)
        for partition in range(state.partition_count):
            end = max((one.ends[partition] for one in done if partition < len(one.ends)), default=0)
            if end and not state.manifest.paths_within(partition, 0, end) <= clean:
                return Proposal(operation="ERASE", actions=(), result=False)
        finished = {
            one.erasure_id: msgspec.structs.replace(one, rewritten_version=state.version + 1, rewritten_ms=now_ms)
            for one in done
        }
        altered = replace(state, erasures=tuple(finished.get(one.erasure_id, one) for one in state.erasures))
        metadata = moved_metadata(altered, TopicMove(to=state.attachment))
        return Proposal(operation="ERASE", actions=[metadata], result=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetErasures:
    """A change that takes requests out of the table's properties, once nothing of what they erased is in the store."""

    erasure_ids: Collection[str]

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """Propose the table's metadata without them; no actions if it has none of them. Never raises."""
        del now_ms
        left = tuple(one for one in state.erasures if one.erasure_id not in self.erasure_ids or not one.is_rewritten)
        if not state.exists or left == state.erasures:
            return Proposal(operation="ERASE", actions=(), result=None)
        metadata = moved_metadata(replace(state, erasures=left), TopicMove(to=state.attachment))
        return Proposal(operation="ERASE", actions=[metadata], result=None)


def erasures_error(known: Collection[str] | None, state: TopicState) -> TidelogError | None:
    """Return the error about records that were chosen by requests to erase, of which the topic has another one by now.

    ``known``: ids of the requests; None: the records come after all requests.
    """
    if known is None or all(one.erasure_id in known for one in state.erasures):
        return None
    return BackOff(f"Records of topic {state.topic!r} were asked to be erased meanwhile.", topic=state.topic)


def _table_actions(state: TopicState, altered: TopicState, move: TopicMove) -> Sequence[Action]:
    metadata = moved_metadata(altered, move)
    if state.has_table_feature and move.to is None:
        return [metadata]
    return [protocol_of(altered.columns, has_table_feature=True), metadata]
