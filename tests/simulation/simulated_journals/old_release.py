"""A gateway of the release before journals: it knows no property ``tidelog.journal``, and takes protocol 1/2 at most."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from log_format import layout
from log_format.checkpoints.checkpoint import decode_checkpoint
from log_format.checkpoints.topic_log import topic_table
from log_format.clock import Clock
from log_format.delta.actions import Commit, Protocol
from log_format.delta.change import Proposal
from log_format.delta.checkpoint_schema import select_actions
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.delta.table import Table
from log_format.errors import UnsupportedTable
from log_format.store import ObjectStore
from log_format.topic import changes
from log_format.topic.append import Append
from log_format.topic.changes import CreateTopic
from log_format.topic.state import TopicState
from tests.support.records import batch_of

WRITER_VERSION = 2
EARLIER = Protocol(min_reader_version=1, min_writer_version=WRITER_VERSION)


class CreateEarlier(CreateTopic):
    """As a topic was made before tables had a writer feature: only a journal raises its protocol."""

    def propose(self, state: TopicState, now_ms: int) -> Proposal[bool]:
        """See ``CreateTopic``."""
        proposal = super().propose(state, now_ms)
        if not proposal.actions:
            return proposal
        protocol = changes._protocol(state, self.attachment) or ([] if state.version >= 0 else [EARLIER])
        return replace(proposal, actions=[*protocol, *proposal.actions[1:]])


class OldState(TopicState):
    """What that release makes of a log."""

    def apply(self, commit: Commit, version: int) -> Self:
        if commit.protocol is not None and commit.protocol.min_writer_version > WRITER_VERSION:
            raise UnsupportedTable(f"version {version} asks for a newer release")
        return replace(super().apply(commit, version), attachment=None)


class OldGateway:
    """It appends plainly."""

    def __init__(self, store: ObjectStore, clock: Clock, new_id: Callable[[], str], rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._rng = rng
        self._logs: dict[str, TableLog[TopicState]] = {}

    def append(self, topic: str, value: bytes) -> str:
        """One record. What became of it."""
        log = self._logs.setdefault(topic, TableLog(self._store, _table(topic), self._clock))
        try:
            if not log.state.exists:
                log.refresh()
            if not log.state.exists:
                return "no topic"
            batch = batch_of(log.state.topic_id, [value])
            Committer(log, new_id=self._new_id, jitter=self._rng.random).commit(Append([batch], self._new_id))
        except UnsupportedTable:
            return "stopped"
        return "appended"


def _table(topic: str):  # type: ignore[no-untyped-def]
    table = topic_table(topic)

    def read_checkpoint(data: bytes, version: int) -> TopicState:
        rows = decode_checkpoint(data, layout.topic_root(topic), version)
        if select_actions(rows, "protocol")[-1].as_py()["minWriterVersion"] > WRITER_VERSION:
            raise UnsupportedTable(f"checkpoint {version} asks for a newer release")
        return _old(table.read_checkpoint(data, version))

    return Table(
        root=table.root,
        label=table.label,
        fields=table.fields,
        absent=lambda: _old(table.absent()),
        read_checkpoint=read_checkpoint,
    )


def _old(state: TopicState) -> OldState:
    return OldState(**{name: getattr(state, name) for name in TopicState.__dataclass_fields__} | {"attachment": None})
