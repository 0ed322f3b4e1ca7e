"""What is left to do for a decided transaction, and in which order, whichever program does it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from log_format.errors import CorruptData, TopicReplaced, UnknownTopic
from log_format.records.schema import BATCH_SCHEMA
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.applied_transactions import TransactionEnded
from log_format.transactions.changes import FinishTransaction, unknown_transaction_error
from log_format.transactions.finishing import finish
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_offsets import SUFFIX
from log_format.transactions.staged_records import StagedRecords, staged_name

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

NAMES = (
    staged_name(0, "b", 0, "x"),
    staged_name(1, "a", 0, "x"),
    staged_name(2, "b", 1, "x"),
    staged_name(3, "groups/g", None, "x", suffix=SUFFIX),
)
TOPICS = {NAMES[0]: "b", NAMES[1]: "a", NAMES[2]: "b"}
DECIDED = TransactionRow(
    transaction_id="t",
    transactional_id="",
    producer_id="p",
    epoch=0,
    state="committing",
    began_at_ms=0,
    expires_at_ms=0,
    recorded_at_ms=0,
    staged=NAMES,
    decided_version=1,
)


class _Program:
    """Does everything in memory, and remembers what it was asked. ``failing``: the step that raises."""

    def __init__(self, **failing: Exception) -> None:
        self.steps: list[str] = []
        self.newest_row: TransactionRow | None = DECIDED
        self.record_count = 1
        self._failing = failing

    def _step(self, step: str, what: str) -> None:
        self.steps.append(f"{step} {what}")
        if step in self._failing:
            raise self._failing[step]

    async def each(self, work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]) -> list[ResultT]:
        return [await work(item) for item in items]

    async def records(self, row: TransactionRow, names: Sequence[str]) -> Sequence[StagedRecords]:
        assert row is DECIDED
        self._step("read", ",".join(str(NAMES.index(name)) for name in names))
        rows = [{"timestamp": 0, "key": None, "value": b"v", "headers": None}] * self.record_count
        records = pa.Table.from_pylist(rows, schema=BATCH_SCHEMA)
        partitions = np.zeros(self.record_count, np.int32)
        return [
            StagedRecords(topic=TOPICS[name], topic_id="i", records=records, partitions=partitions) for name in names
        ]

    async def append(
        self, row: TransactionRow, requests: Sequence[StagedRecords]
    ) -> Sequence[AppendedRange] | Duplicate:
        self._step("append", requests[0].topic)
        places = (AppendedRange(0, 7, len(requests)),)
        return Duplicate(places) if requests[0].topic == "a" else places

    async def append_indexed(self, row: TransactionRow, name: str) -> Sequence[Place]:
        self._step("append all of", name)
        return [Place("a", 0, 7, 100), Place("b", 0, 7, 100)]

    async def settle(self, row: TransactionRow, names: Sequence[str]) -> None:
        self._step("settle", ",".join(str(NAMES.index(name)) for name in names))

    async def record(self, last: FinishTransaction) -> TransactionRow:
        self._step("record", ",".join(place.topic for place in last.places))
        return msgspec.structs.replace(DECIDED, state="committed", places=last.places)

    async def newest(self, transaction_id: str) -> TransactionRow | None:
        self._step("look", transaction_id)
        return self.newest_row

    async def clean(self, transaction_id: str) -> None:
        self._step("clean", transaction_id)

    def finish(self, row: TransactionRow = DECIDED) -> TransactionRow:
        return asyncio.run(finish(row, self))


def test_records_then_offsets_then_the_last_row() -> None:
    """A topic's requests are one append, at its first places where it was appended before; what is staged goes last."""
    program = _Program()
    done = program.finish()
    assert program.steps == ["read 0,2", "append b", "read 1", "append a", "settle 3", "record a,b", "clean t"]
    assert (done.state, done.places) == ("committed", (Place("a", 0, 7, 1), Place("b", 0, 7, 2)))


def test_what_an_index_names_is_appended_by_it() -> None:
    """A large transaction's row names its index, and offsets, which still come behind the records."""
    program = _Program()
    done = program.finish(msgspec.structs.replace(DECIDED, staged=("x-1.index", NAMES[3])))
    assert program.steps == ["append all of x-1.index", "settle 3", "record a,b", "clean t"]
    assert done.places == (Place("a", 0, 7, 100), Place("b", 0, 7, 100))


@pytest.mark.parametrize("state", ["open", "aborted", "committed"])
def test_only_what_is_decided_is_finished(state: str) -> None:
    """Anything else is returned as it is."""
    row = msgspec.structs.replace(DECIDED, state=state)
    program = _Program()
    assert program.finish(row) is row
    assert program.steps == []


@pytest.mark.parametrize("gone", [UnknownTopic("t"), TopicReplaced("t")])
def test_records_of_a_deleted_topic_are_gone_with_it(gone: Exception) -> None:
    """The transaction ends all the same."""
    program = _Program(append=gone)
    assert program.finish().places == ()
    assert program.steps[-2:] == ["record ", "clean t"]


def test_a_request_without_records_appends_nothing() -> None:
    """The request has no place in its topic."""
    program = _Program()
    program.record_count = 0
    assert program.finish().places == ()
    assert not [step for step in program.steps if step.startswith("append")]


@pytest.mark.parametrize(
    "failing", [{"read": CorruptData("missing", object="x")}, {"append": TransactionEnded("t")}], ids=["read", "append"]
)
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_another_program_was_faster(failing: dict[str, Exception], is_forgotten: bool) -> None:
    """What is missing was deleted behind the last row, and the newest row says so, unless it is forgotten already."""
    program = _Program(**failing)
    program.newest_row = None if is_forgotten else msgspec.structs.replace(DECIDED, state="committed")
    assert program.finish().state == "committed"
    assert program.steps[-1] == "look t"


def test_what_is_missing_while_the_transaction_goes_on_is_corrupt() -> None:
    """No program has finished it: nothing is said to be committed."""
    program = _Program(read=CorruptData("missing", object="x"))
    with pytest.raises(CorruptData):
        program.finish()
    program = _Program()
    with pytest.raises(CorruptData):
        program.finish(msgspec.structs.replace(DECIDED, staged=("../x",)))
    assert program.steps == ["look t"]


def test_a_last_row_that_is_forgotten_already() -> None:
    """Another program wrote it long ago; the places are the same."""
    done = _Program(record=unknown_transaction_error("t")).finish()
    assert (done.state, len(done.places), done.staged) == ("committed", 2, ())
