"""The checks when a history has come to rest: everything is drained, and the tables alone have everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.checkpoints.journal_log import journal_table
from log_format.checkpoints.topic_log import topic_table
from log_format.delta.log import TableLog
from log_format.journal.state import JournalState
from log_format.store import ObjectInfo
from log_format.topic.state import TopicState
from tests.simulation.simulated.faults import HOUR_MS
from tests.simulation.simulated.scheduler import EPOCH_MS, Machine, Scheduler
from tests.simulation.simulated.store import Server
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_journals.gateway import Gateway

if TYPE_CHECKING:
    from tests.simulation.simulated_journals.world import JournalsWorld


CHECKPOINT_SHARE = 0.3
"""In so many histories a checkpoint is compared at the end: it takes time."""


def check_end(world: JournalsWorld) -> None:
    """A new gateway drains all, by what is in the store alone. Then it compares."""
    scheduler = Scheduler(world.rng)
    scheduler.now_ms = 1000 * HOUR_MS
    gateway = Gateway(
        scheduler, world.rng, Direct(world.server), Machine("after the end"), world.new_id,
        topics=list(world.ledger.tables), journals=list(world.ledger.journals), letters=[],
    )  # fmt: skip
    for number, journal in gateway.journals.items():
        journal.look()
        if world.rng.random() < CHECKPOINT_SHARE:
            _check_checkpoint(gateway, number, world)
    for name, truth in world.ledger.tables.items():
        before = world.judge.known_ends(name)
        view = gateway.view(name)
        world.judge.looked(view, before)
        gateway.drain_whole(name)
        _check_table(gateway, name, view, truth.head.topic_id, world)
    for number in gateway.journals:
        gateway.tidy(number)
        gateway.tidy(number)
        _check_let_go(gateway, number)
    world.judge.end()


def _check_table(gateway: Gateway, name: str, view: TopicState, topic_id: str | None, world: JournalsWorld) -> None:
    """The table alone says what the view said: records, offsets, producers, transactions."""
    table = TableLog(gateway.store, topic_table(name), gateway.clock).refresh()
    if topic_id is None:
        return
    ends = [world.ledger.next_offsets.get((topic_id, partition), 0) for partition in range(table.partition_count)]
    if table.next_offsets.tolist() != ends:
        raise Violation(f"the table of {name} has {table.next_offsets.tolist()} of {ends}")
    for producer_id, known in view.producers.by_id.items():
        there = table.producers.by_id.get(producer_id)
        if there is None or there[:3] != known[:3]:
            raise Violation(f"the table of {name} knows {there} of {producer_id}, its journal {known}")
    for producer_id, kafkas in view.producers.numbered.by_id.items():
        for partition, lane in kafkas.lanes.items():
            at = table.producers.numbered.lane(producer_id, partition)
            if at != lane:
                raise Violation(f"the table of {name} knows {at} of {producer_id}, its journal {lane}")
    if view.producers.numbered.spent_unseen_by(table.producers.numbered):
        raise Violation(f"the table of {name} does not know all that its journal has forgotten")
    if view.transactions.floor > table.transactions.floor or view.transactions.by_id != table.transactions.by_id:
        raise Violation(f"the table of {name} knows {table.transactions}, its journal {view.transactions}")
    if view.producers.forgotten_issued_ms > table.producers.forgotten_issued_ms:
        raise Violation(f"the table of {name} forgot another time than its journal")


def _check_checkpoint(gateway: Gateway, number: int, world: JournalsWorld) -> None:
    """A checkpoint changes nothing."""
    replayed = gateway.journals[number].state
    if replayed.version < 0:
        return
    if replayed.version != len(world.ledger.journals[number].commits) - 1:
        raise Violation(f"journal {number} is seen up to {replayed.version}")
    write_table_checkpoint(gateway.store, journal_table(number).root, replayed.version, EPOCH_MS + 1000 * HOUR_MS)
    loaded = TableLog(gateway.store, journal_table(number), gateway.clock).refresh()
    if _facts(loaded) != _facts(replayed):
        raise Violation(f"journal {number} is {_facts(replayed)}, by a checkpoint {_facts(loaded)}")


def _facts(state: JournalState) -> object:
    runs = {topic_id: state.runs.of(topic_id) for topic_id in state.topics.by_id}
    parts = {topic_id: list(one.parts()) for topic_id, one in runs.items() if one is not None}
    return state.version, state.topics.encoded(), parts, sorted(state.runs.unneeded(1000)), state.runs.file_count()


def _check_let_go(gateway: Gateway, number: int) -> None:
    """With everything drained the journal keeps no object."""
    state = gateway.journals[number].state
    if state.runs.file_count():
        raise Violation(f"journal {number} keeps {state.runs.file_count()} objects, and all is drained")


class Direct:
    """The store without a network."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.uri = server.objects.uri
        self.lists_from_key = server.objects.lists_from_key
        self.get = server.objects.get
        self.get_range = server.objects.get_range
        self.head = server.objects.head
        self.delete = server.objects.delete
        self.list_directories = server.objects.list_directories
        self.put = server.put
        self.put_if_absent = server.put_if_absent
        self.copy_if_absent = server.copy_if_absent

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        return self._server.objects.list(prefix, start_after=start_after)
