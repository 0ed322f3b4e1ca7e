"""The commit that makes a topic as a clone of another: its records at the same offsets, in files of its own, in one version.

The files are in the store before the commit (``log_format.checkpoints.cloning``). Producers, transactions and groups belong to
the source, and do not go along; requests to erase that are not done yet do. Like rewrites, the adds have ``dataChange`` false:
with offsets below the log start, and gaps of key compaction, they are no appends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from log_format.delta.actions import TAG_ARCHIVE, Action, Add, Txn
from log_format.delta.change import Proposal
from log_format.delta.foreign import NOTHING_FOREIGN
from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.applied_transactions import TAG_APPLIED
from log_format.topic.archive import NO_ARCHIVE
from log_format.topic.attachment import NO_MOVE
from log_format.topic.changes import moved_metadata
from log_format.topic.config import ConfigValue, check_topic_name
from log_format.topic.erasures import Erasure
from log_format.topic.partition_offsets import ERASED_APP_ID, KEYS_COMPACTED_APP_ID, LOG_START_APP_ID
from log_format.topic.segment_tags import TAG_PRODUCERS
from log_format.topic.state import TopicState
from log_format.topic.table_columns import protocol_of

CLONE_AGE_MS_MAX: Final = 12 * 3_600_000
"""Longest time from the beginning of the copies to their commit. Maintenance keeps the copies for twice as long."""
_NOT_CLONED: Final = (TAG_PRODUCERS, TAG_APPLIED, TAG_ARCHIVE)
"""Tags that the copy of a file does not have. What was in the archive is below the log starts of the clone, and maintenance puts
it into the clone's archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneTopic:
    """A change that creates a topic with another one's records.

    Args:
        name: the new topic.
        source: the topic to clone, at one version of its own log.
        adds: the ``add`` of each of its files, with the path that the copy has in the new topic's table.
        topic_id: id of the new topic.
        config: settings that the new topic has differently; None: the default.
        erasures: requests to erase what the files still have.
        begun_at_ms: when the copies were begun, in ms since the epoch.
    """

    name: str
    source: TopicState
    adds: Sequence[Add]
    topic_id: str
    begun_at_ms: int
    config: Mapping[str, ConfigValue | None]
    erasures: Sequence[Erasure] = ()

    def __post_init__(self) -> None:
        """Raise ``RequestRefused`` for a name that a topic can't have."""
        check_topic_name(self.name)

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        """Propose protocol, metadata, files and offsets.

        Raises ``RequestRefused``: ``TOPIC_ALREADY_EXISTS``, ``INVALID_CONFIG``, and if the copies are too old.
        """
        if state.exists and state.topic_id == self.topic_id:
            return Proposal(operation="CLONE TOPIC", actions=(), result=None)
        if state.exists:
            raise RequestRefused(
                f"Topic {self.name!r} exists: clone into a new name.",
                code=ErrorCode.TOPIC_ALREADY_EXISTS,
                topic=self.name,
            )
        if now_ms - self.begun_at_ms > CLONE_AGE_MS_MAX:
            raise RequestRefused(
                "The copies took so long that maintenance may delete them: clone again.", topic=self.name
            )
        cloned = replace(
            self.source,
            topic=self.name,
            topic_id=self.topic_id,
            created_at_ms=now_ms,
            config=self.source.config.altered(self.config),
            attachment=None,
            last_move=None,
            foreign=NOTHING_FOREIGN,
            pins=(),
            archive=NO_ARCHIVE,
            erasures=tuple(self._within(as_requested(erasure, version=state.version + 1)) for erasure in self.erasures),
            has_table_feature=state.has_table_feature or bool(self.erasures),
        )
        protocol = protocol_of(cloned.columns, has_table_feature=cloned.has_table_feature)
        actions: list[Action] = [protocol, moved_metadata(cloned, NO_MOVE), *self.adds]
        for prefix, offsets in (
            ("", cloned.next_offsets),
            (LOG_START_APP_ID, cloned.log_starts),
            (KEYS_COMPACTED_APP_ID, cloned.keys_compacted),
            (ERASED_APP_ID, cloned.erased_ends),
        ):
            actions += [
                Txn(app_id=f"{prefix}{partition}", version=int(offsets[partition]), last_updated=now_ms)
                for partition in np.flatnonzero(offsets)
            ]
        return Proposal(operation="CLONE TOPIC", actions=actions, result=None)

    def _within(self, erasure: Erasure) -> Erasure:
        """Return the request as the cloned version can have it: one that came later may be about offsets that it has not."""
        ends = zip(erasure.ends, self.source.next_offsets.tolist(), strict=False)
        return msgspec.structs.replace(erasure, ends=tuple(map(min, ends)))


def cloned_add(add: Add, path: str) -> Add:
    """Return the ``add`` of a copy at ``path`` (URI-encoded), without what is the source's own: producers and transactions."""
    tags = {name: text for name, text in (add.tags or {}).items() if name not in _NOT_CLONED}
    return Add(
        path=path,
        size=add.size,
        modification_time=add.modification_time,
        data_change=False,
        stats=add.stats,
        tags=tags,
    )


def as_requested(erasure: Erasure, *, version: int | None = None) -> Erasure:
    """Return a request to erase without what was done for it in another topic. ``version``: of its commit there."""
    return Erasure(
        erasure_id=erasure.erasure_id,
        requested_ms=erasure.requested_ms,
        wanted=erasure.wanted,
        ends=erasure.ends,
        before_ms=erasure.before_ms,
        within=erasure.within,
        where=erasure.where,
        judged_by=erasure.judged_by,
        keep=erasure.keep,
        version=version,
        hidden_hashes=erasure.hidden_hashes,
    )
