"""The simulation of journals can fail: each of these defects, planted into the code under test, shows in some history.

Each is a mistake that can be made in journals. A defect that no history shows within ``SEEDS_MAX`` seeds means that the
simulation has gone blind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from log_format.journal.drain import Drain
from log_format.journal.entries import Attach, Close, Drained, Release
from log_format.journal.notes import JournalNotes
from log_format.journal.state import JournalRuns, JournalState
from log_format.journal.topics import JournalTopic, TopicsEdit
from log_format.journal.view import AheadOfTable, overlay_journal
from log_format.topic.attachment import TopicMove
from log_format.topic.numbered_producers import NO_NUMBERED
from log_format.topic.producers import StampedBatch
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import CROWDED, FAULTY, STORMY, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_journals.gateway import Gateway
from tests.simulation.simulated_journals.world import MEDDLED, RESTLESS, simulate_journals

SEEDS_MAX = 120

_check = TopicMove.check
_attach, _topic_row = TopicsEdit._attach, "log_format.journal.topics._row"


def _attaches_what_is_closed(edit: TopicsEdit, topic_id: str, number: int) -> bool:
    """Takes a journal that does not know the topic for one that never had it."""
    if topic_id in edit.by_id:
        return True
    edit._changed_closed().pop(topic_id, None)
    edit._floor = 0
    return False


def _keeps_no_floor(self: TopicsEdit, topic_id: str, number: int) -> None:
    """Forgets closed numbers without a trace."""
    closed = self._changed_closed()
    closed[topic_id] = max(number, closed.pop(topic_id, 0))
    while len(closed) > 1:
        closed.pop(next(iter(closed)))


def _checks_nothing(self: TopicMove, state: Any) -> None:
    """Changes a topic wherever it is."""


def _checks_the_place_alone(self: TopicMove, state: Any) -> None:
    """Takes a topic to a journal under a number that was chosen before it was there last."""
    _check(self._replace(seen_version=None), state)


def _opens_in_a_checkpoint(topic: JournalTopic) -> Any:
    """A checkpoint without the topic's close."""
    from log_format.journal import topics

    return topics._Row(
        topic.topic_id, topic.name, topic.number, topic.first, True, topic.settings, topic.next_offsets.tolist(),
        topic.drained.tolist(), topic.undrained_since_ms, msgspec.Raw(topic.producers.encoded()),
        msgspec.Raw(topic.transactions.encoded()),
    )  # fmt: skip


def _drains_all_again(self: Drain, state: TopicState) -> pa.Table:
    """Drains what the table has already."""
    return self._records


def _drains_no_stamps(self: Drain, state: TopicState) -> Iterator[StampedBatch]:
    """Forgets which producers sent what it drains."""
    yield from ()


def _forgets_all(self: JournalRuns, topic_id: str, topic: JournalTopic | None) -> None:
    """One drain of a topic, and all its runs are forgotten."""
    self._by_topic.pop(topic_id, None)


def _shows_the_table(state: TopicState, journal: JournalState) -> TopicState:
    """Does not look again where the journal has forgotten what the known table lacks."""
    try:
        return overlay_journal(state, journal)
    except AheadOfTable:
        return state


def _looks_at_the_topic_first(self: Gateway, topic: str) -> TopicState:
    """Takes the topic's log before the journal's."""
    own = self.topics[topic].look()
    if own.attachment is None:
        return own
    return overlay_journal(own, self.journals[own.attachment.journal].look())


def _lets_go_of_all(self: JournalRuns, count_max: int) -> list[tuple[str, int]]:
    """Takes every object for one that no topic needs."""
    return [(path, file.size_bytes) for path, file in list(self._files.items())[:count_max]]


def _believes_every_attach(self: TopicsEdit, entry: Attach, topic: JournalTopic | None) -> JournalTopic:
    """Takes the state that an attach brings also within a stay, in which only the journal knows it."""
    return _attach(self, entry, None if topic is None else msgspec.structs.replace(topic, first=0))


def _releases_what_is_closed(self: Gateway, number: int) -> None:
    """Takes a closed topic for one that has left."""
    journal = self.journals[number]
    closed = [topic for topic in journal.look().topics.by_id.values() if not topic.is_open]
    notes = [*self._taken_notes(number), *(Release(topic.topic_id, topic.number) for topic in closed)]
    journal.commit(JournalNotes(notes))


def _says_too_much(topic_id: str, offsets: Sequence[tuple[int, int]], up_to_ms: int) -> Drained:
    """Says that a record is drained which is not."""
    return Drained(topic_id, [(partition, offset + 1) for partition, offset in offsets], up_to_ms)


def _closes_the_number_before(topic_id: str, number: int) -> Close:
    """Closes, but not the number that is open."""
    return Close(topic_id, number - 1 or 1)


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, and where to begin."""

    target: str
    replacement: Any
    profile: Profile
    first_seed: int = 0


_CORE = "log_format.journal"
_PRODUCERS = "log_format.topic.producers"
_NUMBERED = "log_format.topic.numbered_producers"
_GATEWAY = "tests.simulation.simulated_journals.gateway"

PLANTED: dict[str, Planted] = {
    "attaches a closed number": Planted(f"{_CORE}.batch_judge._is_closed", _attaches_what_is_closed, STORMY),
    "keeps no floor": Planted(f"{_CORE}.topics.TopicsEdit._remember", _keeps_no_floor, STORMY, first_seed=79),
    "changes what is open": Planted(
        "log_format.topic.attachment.TopicMove.check", _checks_nothing, CROWDED, first_seed=5
    ),
    "joins by an old number": Planted(
        "log_format.topic.attachment.TopicMove.check", _checks_the_place_alone, RESTLESS, first_seed=12
    ),
    "closes another number": Planted(f"{_GATEWAY}.Close", _closes_the_number_before, CROWDED),
    "a checkpoint forgets a close": Planted(_topic_row, _opens_in_a_checkpoint, STORMY, first_seed=17),
    "a drain ignores next offsets": Planted(f"{_CORE}.drain.Drain._missing", _drains_all_again, CROWDED),
    "a drain loses stamps": Planted(f"{_CORE}.drain.Drain._stamped", _drains_no_stamps, FAULTY),
    "a drain loses Kafka's stamps": Planted(f"{_NUMBERED}.NumberedProducers.unseen_by", lambda *_: iter(()), FAULTY),
    "a checkpoint loses Kafka's stamps": Planted(
        f"{_PRODUCERS}.decode_numbered", lambda *_: NO_NUMBERED, FAULTY, first_seed=18
    ),
    "a commit ignores Kafka's sequences": Planted(
        f"{_PRODUCERS}.SequenceCheck._judge_numbered", lambda *_: None, FAULTY
    ),
    "a drain loses transactions": Planted(f"{_CORE}.drain.Drain._applied", lambda *_: {}, FAULTY),
    "a drain says too much": Planted(f"{_GATEWAY}.Drained", _says_too_much, FAULTY),
    "an append ignores the number": Planted(
        f"{_CORE}.batch_judge._is_open_under", lambda *_: True, MEDDLED, first_seed=13
    ),
    "an append ignores the expected offset": Planted(
        f"{_CORE}.batch_judge.expected_offset_error", lambda *_: None, CROWDED
    ),
    "a view does not look again": Planted(f"{_GATEWAY}.overlay_journal", _shows_the_table, FAULTY),
    "a look takes the topic first": Planted(f"{_GATEWAY}.Gateway.view", _looks_at_the_topic_first, STORMY),
    "forgets too much": Planted(f"{_CORE}.state.JournalRuns.forget_drained", _forgets_all, FAULTY),
    "lets go of an object": Planted(f"{_CORE}.state.JournalRuns.unneeded", _lets_go_of_all, CROWDED),
    "releases what is there": Planted(f"{_GATEWAY}.Gateway.tidy", _releases_what_is_closed, CROWDED),
    "an attach brings an old state": Planted(
        f"{_CORE}.topics.TopicsEdit._attach", _believes_every_attach, CROWDED, first_seed=10
    ),
    "leaves undrained": Planted(f"{_GATEWAY}.Gateway.drain_whole", lambda *_: None, CROWDED),
    "does not stop an older release": Planted("log_format.topic.changes._protocol", lambda *_: [], CROWDED),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    replaced = [(planted.target, planted.replacement)]
    assert shows(simulate_journals, planted.first_seed, SEEDS_MAX, profile=planted.profile, planted=replaced)
