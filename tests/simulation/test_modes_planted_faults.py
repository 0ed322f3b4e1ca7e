"""The simulation of modes can fail: each of these defects, planted into the real gateway, breaks a guarantee in some history.

Where ``test_journal_planted_faults`` plants into the core, these are mistakes of gateways with topics that come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.journal_writer import JournalWriter, with_offsets
from gateway.engine.open_journal import OpenJournal
from gateway.engine.open_table import OpenTable
from gateway.engine.open_topic import OpenTopic
from gateway.engine.topic_mover import TopicMover
from gateway.journals.upkeep import JournalUpkeep
from log_format.delta.change import Proposal
from log_format.journal.append import JournalAppend
from log_format.journal.drain import Drain
from log_format.journal.entries import Close, Entry, Release
from log_format.topic.append import Append
from log_format.topic.attachment import Attachment
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import CROWDED, FAULTY, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_modes.world import DOZING, simulate_modes
from tests.simulation.simulated_service.service import Code
from tests.simulation.simulated_service.world import RENEWED

SEEDS_MAX = 100

_say = OpenJournal.commit_entries
_judge_own = Append._judge
_propose = JournalAppend.propose
_commit_flush = JournalWriter._commit
_propose_drain = Drain.propose
_proposed: dict[JournalAppend, Any] = {}


async def _closes_nothing(self: OpenJournal, *entries: Entry) -> Any:
    """A changer leaves the number open."""
    return await _say(self, *(entry for entry in entries if not isinstance(entry, Close)))


async def _drains_nothing(self: TopicMover) -> None:
    """A topic leaves its journal with what only that has."""


def _says_it_drained(self: Drain, state: TopicState, now_ms: int) -> Proposal[bool]:
    """Tells the journal of a drain that no commit made."""
    return Proposal(operation="WRITE", actions=(), result=True)


def _sees_the_table_alone(self: OpenTopic) -> TopicState:
    """Readers don't get what only the journal has."""
    return self.log.state


async def _looks_at_the_table_alone(self: OpenTopic, arrival_ms: int | None = None) -> TopicState:
    """A reader does not learn what other gateways appended to the journal."""
    await OpenTable.fresh(self, arrival_ms)
    return self.state


def _believes_it_open(state: TopicState, journal: Any) -> bool:
    """Takes what it knows of a topic for true while the topic is at a journal."""
    return True


def _shifts_a_flush(encoded: Any, placed: Sequence[Any]) -> Any:
    """Shows the records of a flush one offset later than they are."""
    flush = with_offsets(encoded, placed)
    offsets = np.array(flush.column("offset")) + 1
    return flush.set_column(1, flush.schema.field("offset"), [offsets])


async def _settles_before_the_commit(self: JournalWriter, append: JournalAppend) -> Any:
    """Acknowledges when the object is up."""
    proposal = _propose(append, self._table.state, 0)
    for group in self._flushes.ahead[:1]:
        for pending, outcome in zip(group.pending, proposal.result, strict=True):
            if isinstance(outcome, tuple):
                pending.settle(outcome)
    return await _commit_flush(self, append)


def _proposes_once(self: JournalAppend, state: Any, now_ms: int) -> Any:
    """Commits behind others what it had in mind before them."""
    if self not in _proposed:
        _proposed[self] = _propose(self, state, now_ms)
    return _proposed[self]


def _drains_no_transactions(self: Drain, state: TopicState) -> dict[Any, Any]:
    """The table does not learn which transactions it has."""
    return {}


def _drains_no_producers(self: Drain, state: TopicState) -> Iterable[Any]:
    """The table does not learn whose requests it has."""
    return ()


async def _overtakes_never(self: TopicMover, *_: Any) -> None:
    """A changer that died keeps its topic closed."""


async def _releases_the_closed(self: JournalUpkeep, journal: OpenJournal, topics: Iterable[Any]) -> None:
    """Takes a closed topic for one that has left."""
    for topic in topics:
        if not topic.is_open:
            journal.writer.note(Release(topic.topic_id, topic.number))


def _keeps_the_number(self: Attachment, number: int) -> Attachment:
    """A change does not raise the topic's number."""
    return self


def _appends_wherever_it_is(self: Append, state: TopicState, *rest: Any, **more: Any) -> Any:
    """A gateway that knows nothing of journals."""
    return _judge_own(self, replace(state, attachment=None), *rest, **more)


def _reads_whatever_has_the_name(**arguments: Any) -> FetchFrom:
    return FetchFrom(**{**arguments, "topic_id": None})


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, and where to begin."""

    target: str
    replacement: Any
    profile: Profile = CROWDED
    first_seed: int = 0


_ENGINE = "gateway.engine"

PLANTED: dict[str, Planted] = {
    "changes what is open": Planted(
        f"{_ENGINE}.open_journal.OpenJournal.commit_entries", _closes_nothing, first_seed=0
    ),
    "leaves without a drain": Planted(f"{_ENGINE}.topic_mover.TopicMover.drain_all", _drains_nothing, first_seed=0),
    "says that it drained": Planted("log_format.journal.drain.Drain.propose", _says_it_drained),
    "shows the table alone": Planted(f"{_ENGINE}.open_topic.OpenTopic.state", property(_sees_the_table_alone)),
    "looks at the table alone": Planted(
        f"{_ENGINE}.open_topic.OpenTopic.fresh", _looks_at_the_table_alone, first_seed=1
    ),
    "believes a topic open": Planted(f"{_ENGINE}.open_topic.is_open", _believes_it_open, first_seed=100),
    "shows records in another place": Planted(f"{_ENGINE}.journal_writer.with_offsets", _shifts_a_flush),
    "acknowledges when the object is up": Planted(
        f"{_ENGINE}.journal_writer.JournalWriter._commit", _settles_before_the_commit, first_seed=0
    ),
    "skips re-validation": Planted("log_format.journal.append.JournalAppend.propose", _proposes_once, first_seed=0),
    "drains no transactions": Planted(
        "log_format.journal.drain.Drain._applied", _drains_no_transactions, FAULTY, first_seed=23
    ),
    "drains no producers": Planted("log_format.journal.drain.Drain._stamped", _drains_no_producers, first_seed=5),
    "overtakes never": Planted(f"{_ENGINE}.topic_mover.TopicMover._overtake", _overtakes_never, FAULTY, first_seed=16),
    "releases what is closed": Planted(
        "gateway.journals.upkeep.JournalUpkeep._release", _releases_the_closed, DOZING, first_seed=20
    ),
    "keeps the number": Planted("log_format.topic.attachment.Attachment.following", _keeps_the_number, first_seed=0),
    "fetches whatever has the name": Planted(
        "gateway.routes.fetch.FetchFrom", _reads_whatever_has_the_name, RENEWED, first_seed=24
    ),
    "appends beside a journal": Planted("log_format.topic.append.Append._judge", _appends_wherever_it_is, first_seed=0),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    _proposed.clear()
    code = Code(planted=((planted.target, planted.replacement),))
    assert shows(simulate_modes, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
