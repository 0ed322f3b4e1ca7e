"""The driver's commit of a batch on the store: once, and over all topics at once.

That holds whichever request was the last of a driver that died, and whichever process finishes what it had decided.
"""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format import limits
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import BackOff
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.segments.reader import OffsetRange, SegmentReader
from log_format.topic.changes import CreateTopic, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producer_id import JOB, issue
from log_format.transactions.changes import BeginTransaction, Decide, DecideCommit, ForbidTransaction
from log_format.transactions.compaction import Compact
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_age import JOB_MS_MAX
from log_format.transactions.staged_records import STAGED
from log_format.transactions.state import TransactionsState, transactions_table
from spark_pipeline.sink import commit, stage
from spark_pipeline.sink.batch_name import BatchName, BatchRefused
from spark_pipeline.sink.commit import commit_staged, open_transactions
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.stage import StagedTask
from spark_pipeline.source.plan import find_parts
from spark_pipeline.source.reading import PartReader
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.shared_bench import SharedBench

OPTIONS = SinkOptions(store="memory://under-test")
QUERY = "a-query"
TOPICS = ("a", "b")
CHANGES = ("put", "put_if_absent", "delete")


class Died(BaseException):
    """The driver is gone: no handler runs."""


class DyingStore(FaultyStore):
    """A store whose caller dies at its ``calls_left``-th change, before or behind it."""

    def __init__(self) -> None:
        super().__init__(before=self._count, after=self._look)
        self.calls_left: int | None = None
        self.is_behind = False

    def _count(self, operation: str, _key: str) -> None:
        if self.calls_left is not None and operation in CHANGES:
            self.calls_left -= 1
            if self.calls_left < 0 and not self.is_behind:
                raise Died

    def _look(self, operation: str, _key: str) -> None:
        if self.calls_left is not None and self.calls_left < 0 and operation in CHANGES:
            raise Died


class Unhurried(SystemClock):
    """A clock whose sleeps are over at once."""

    def sleep_ms(self, duration_ms: int) -> None:
        del duration_ms


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[DyingStore]:
    """A store with two topics, as ``OPTIONS`` names it."""
    dying = DyingStore()
    for module in (stage, commit):
        monkeypatch.setattr(module, "cached_store", lambda _uri: dying)
    monkeypatch.setattr(commit, "SystemClock", Unhurried)
    forget()
    for topic in TOPICS:
        make_topic(dying, topic)
    yield dying
    forget()


def forget() -> None:
    """What a new process does not know."""
    stage.topic_log.cache_clear()
    stage.producer_key.cache_clear()
    open_transactions.cache_clear()


def new_id() -> str:
    return uuid.uuid4().hex


def make_topic(store: DyingStore, topic: str, **config: object) -> None:
    Committer(TopicLog(store, topic, SystemClock()), new_id=new_id).commit(
        CreateTopic(name=topic, partition_count=2, config=TopicConfig.parse(config), topic_id=new_id())
    )


def staged(number: int | None, topics: tuple[str, ...] = TOPICS, what: str = "") -> StagedTask:
    """Two rows for each topic, staged as an executor would; None: by a job without a name."""
    rows = pa.record_batch(
        {
            "topic": [topic for topic in topics for _ in range(2)],
            "value": [f"{topic}-{number}-{row}{what}".encode() for topic in topics for row in range(2)],
        }
    )
    batch = None if number is None else BatchName(QUERY, number)
    return stage.stage([rows], OPTIONS, stage.new_attempt(), batch)


def values(store: DyingStore, topic: str) -> list[str]:
    bench = SharedBench(store)
    reader = PartReader(SegmentReader(store), bench.reader, lambda: StoredReaders(store, SystemClock()))
    state = bench.look(topic)
    ranges = [OffsetRange(partition, 0, int(end)) for partition, end in enumerate(state.next_offsets) if end]
    found = []
    for part in find_parts(state, 0, ranges):
        for records in reader.scan(part, part.ranges, columns=["value"]):
            found += [value.decode() for value in records.column("value").to_pylist()]
    return sorted(found)


def expected(topic: str, numbers: range) -> list[str]:
    return sorted(f"{topic}-{number}-{row}" for number in numbers for row in range(2))


def transactions(store: DyingStore) -> TransactionsState:
    return TableLog(store, transactions_table(), SystemClock()).refresh()


def bring_to_an_end(store: DyingStore) -> None:
    """As the next one to come by does."""
    for row in transactions(store).transactions.values():
        open_transactions(OPTIONS.store).finish(row)


def test_with_log_append_time_rows_have_the_time_of_the_commit(store: DyingStore) -> None:
    """Tasks stage for as long as a job takes; times in a partition are of when its records were appended."""
    make_topic(store, "appended", **{"message.timestamp.type": "LogAppendTime"})
    tasks = [staged(0, ("appended", "a"))]
    time.sleep(0.02)
    committed_from_ms = SystemClock().now_ms()
    commit_staged(tasks, OPTIONS)
    for topic, is_late in (("appended", True), ("a", False)):
        (info,) = store.list(f"topics/{topic}/segments/")
        oldest = pq.read_table(io.BytesIO(store.get(info.key))).column("timestamp").to_pylist()[0]
        assert (oldest.timestamp() * 1000 >= committed_from_ms) == is_late


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize("another_comes_by", [False, True])
@pytest.mark.parametrize("topics", [TOPICS, ("a", "shared"), ("shared", "shared-too")])
def test_a_driver_that_dies_anywhere_writes_each_batch_once(
    store: DyingStore, is_behind: bool, another_comes_by: bool, topics: tuple[str, ...]
) -> None:
    """For each change of a commit: the driver dies there, and a reader finds all of the batch or nothing of it.

    A new process repeats the batch from the start, and goes on with the next. Topics with their own commits or at a journal.
    """
    SharedBench(store).create(*[topic for topic in topics if "shared" in topic])
    store.is_behind = is_behind
    number = died = 0
    while True:
        tasks = [staged(number, topics)]
        store.calls_left = died
        try:
            commit_staged(tasks, OPTIONS)
        except Died:
            store.calls_left = None
            forget()
            if another_comes_by:
                bring_to_an_end(store)
                assert {len(values(store, topic)) - 2 * number for topic in topics} in ({0}, {2})
            commit_staged([staged(number, topics)], OPTIONS)
            died += 1
        else:
            break
        finally:
            store.calls_left = None
            number += 1
    assert died > 8
    for topic in topics:
        assert values(store, topic) == expected(topic, range(number))
        assert ("shared" in topic) == (not TopicLog(store, topic, SystemClock()).refresh().next_offsets.any())
    assert not any(row.state == "committing" for row in transactions(store).transactions.values())


def test_nothing_of_a_batch_is_in_a_topic_before_it_is_decided(store: DyingStore) -> None:
    """The last change before the decision, and all before it, leave the topics as they were."""
    tasks = [staged(0)]
    store.calls_left, store.is_behind = 1, True  # the rows of the decision, and then its commit
    with pytest.raises(Died):
        commit_staged(tasks, OPTIONS)
    store.calls_left = None
    assert [row.state for row in transactions(store).transactions.values()] == ["committing"]
    assert [values(store, topic) for topic in TOPICS] == [[], []]
    bring_to_an_end(store)
    assert [values(store, topic) for topic in TOPICS] == [expected(topic, range(1)) for topic in TOPICS]
    assert not list(store.list(STAGED))


def test_a_repeat_with_other_records_changes_nothing(store: DyingStore) -> None:
    """What was decided is the batch, whatever a repeat would make of it; nothing of the repeat is left."""
    commit_staged([staged(0, ("a",))], OPTIONS)
    commit_staged([staged(0, ("a", "b"), what="-again")], OPTIONS)
    assert (values(store, "a"), values(store, "b")) == (expected("a", range(1)), [])
    assert not list(store.list(STAGED))


def test_two_processes_of_a_query_write_a_batch_once(store: DyingStore) -> None:
    """The one that was thought dead comes late, at whatever it was doing: it changes nothing."""
    late, later = [staged(0)], [staged(1)]
    commit_staged([staged(0)], OPTIONS)
    commit_staged(late, OPTIONS)
    commit_staged([staged(1)], OPTIONS)
    commit_staged(later, OPTIONS)
    with pytest.raises(BatchRefused, match=r"Batch 0 of a-query is older than batch 1, which was written already"):
        commit_staged([staged(0)], OPTIONS)
    for topic in TOPICS:
        assert values(store, topic) == expected(topic, range(2))


def test_what_a_task_staged_that_does_not_count_is_not_written(store: DyingStore) -> None:
    """A try that failed or ran twice: the driver does not name its objects, and they are deleted with the others."""
    attempt, batch = stage.new_attempt(), BatchName(QUERY, 0)
    rows = pa.record_batch({"topic": ["a"], "value": [b"twice"]})
    stage.stage([rows], OPTIONS, attempt, batch)
    commit_staged([stage.stage([rows], OPTIONS, attempt, batch)], OPTIONS)
    assert values(store, "a") == ["twice"]
    assert not list(store.list(STAGED))


def test_the_next_batch_waits_for_the_one_before(store: DyingStore) -> None:
    """Its records come behind those that a dead driver had decided, and both are there."""
    tasks = [staged(0)]
    store.calls_left, store.is_behind = 1, True
    with pytest.raises(Died):
        commit_staged(tasks, OPTIONS)
    store.calls_left = None
    commit_staged([staged(1)], OPTIONS)
    for topic in TOPICS:
        assert values(store, topic) == expected(topic, range(2))
    floors = TopicLog(store, "a", SystemClock()).refresh().transactions
    assert len(floors.by_id) <= 2


def test_a_query_that_rested_is_known(store: DyingStore) -> None:
    """What is forgotten of transactions after a while is not what tells a repeated batch; in a rewritten table neither."""
    commit_staged([staged(0)], OPTIONS)
    clock = ManualClock()
    clock.pass_ms(SystemClock().now_ms() - clock.now_ms() + limits.TRANSACTIONAL_ID_REMEMBERED_MS + 1)
    committer = Committer(TableLog(store, transactions_table(), clock), new_id=new_id)
    committer.commit(Decide([ForbidTransaction(transaction_id="other")], new_id))
    committer.commit(Compact(new_id, files_min=2))
    known = transactions(store)
    assert len(known.files) == 1
    assert not any(row.transactional_id for row in known.transactions.values())
    commit_staged([staged(0)], OPTIONS)
    assert values(store, "a") == expected("a", range(1))


def test_jobs_without_a_name_append_each_time(store: DyingStore) -> None:
    """Nothing says that they are the same; nothing is left of them, and no transactional id is used up."""
    for _ in range(2):
        commit_staged([staged(None, ("a",))], OPTIONS)
    assert values(store, "a") == sorted(["a-None-0", "a-None-1"] * 2)
    assert not list(store.list(STAGED))
    assert not transactions(store).producers


def test_a_batch_too_large_for_a_commit_is_refused(store: DyingStore) -> None:
    """Before anything of it is decided, with what to do."""
    task = staged(0)
    large = [replace(each, size_bytes=limits.JOB_TOPIC_BYTES_MAX + 1) for each in task.objects]
    with pytest.raises(BatchRefused, match="maxOffsetsPerTrigger"):
        commit_staged([replace(task, objects=tuple(large))], OPTIONS)
    many = [task.objects[0]] * (limits.JOB_OBJECTS_MAX + 1)
    with pytest.raises(BatchRefused, match="coalesce"):
        commit_staged([replace(task, objects=tuple(many))], OPTIONS)
    assert not transactions(store).transactions


def test_a_batch_is_refused_that_collectors_may_have_taken(store: DyingStore) -> None:
    """What was staged too long ago is not decided, and neither is what is for a topic that was made anew."""
    task = staged(0)
    began_ms = SystemClock().now_ms() - JOB_MS_MAX - 1
    old = replace(task, transaction_id=issue(JOB, began_ms, new_id(), b"key"))
    with pytest.raises(BackOff, match="discarded"):
        commit_staged([old], OPTIONS)
    assert values(store, "a") == []


def test_a_topic_that_was_made_anew(store: DyingStore) -> None:
    """Records that were routed for the old one do not enter the new one, and the batch can be run again."""
    tasks = [staged(0)]
    Committer(TopicLog(store, "b", SystemClock()), new_id=new_id).commit(DeleteTopic())
    make_topic(store, "b")
    with pytest.raises(BatchRefused, match="Topic 'b' was deleted"):
        commit_staged(tasks, OPTIONS)
    assert [values(store, topic) for topic in TOPICS] == [[], []]
    commit_staged([staged(0)], OPTIONS)
    assert [values(store, topic) for topic in TOPICS] == [expected(topic, range(1)) for topic in TOPICS]


def test_what_a_gateway_began_for_the_query_is_fenced(store: DyingStore) -> None:
    """A query that wrote through gateways and goes on without: what it left open there can't be committed behind its back."""
    began = open_transactions(OPTIONS.store).decide(
        BeginTransaction(
            transactional_id=BatchName(QUERY, 0).transactional_id,
            transaction_id="t1",
            new_producer_id="p",
            timeout_ms=900_000,
            number=0,
        )
    )
    assert began.last_number == -1
    commit_staged([staged(0)], OPTIONS)
    known: TransactionRow = transactions(store).transactions["t1"]
    assert (known.state, known.reason) == ("aborted", "fenced")
    with pytest.raises(Exception, match="is fenced"):
        open_transactions(OPTIONS.store).decide(DecideCommit(transaction_id="t1", staged=()))
    again = open_transactions(OPTIONS.store).decide(
        BeginTransaction(
            transactional_id=BatchName(QUERY, 0).transactional_id,
            transaction_id="t2",
            new_producer_id="p",
            timeout_ms=900_000,
            number=1,
        )
    )
    assert (again.last_number, again.epoch) == (0, began.epoch + 2)
    assert values(store, "a") == expected("a", range(1))
