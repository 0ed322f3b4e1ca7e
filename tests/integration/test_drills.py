"""The drills of docs/operations.md: a copy made under load is whole, a topic goes back to a version, damage is named."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.groups.changes import CommitOffsets, Decide
from log_format.groups.row import OffsetRow
from log_format.groups.state import GroupsState, consumer_offsets_table
from log_format.inspection.backup import copy_log, copy_table
from log_format.inspection.verify import verify_topic
from log_format.store import ObjectInfo
from log_format.stores import open_store
from log_format.stores.local import LocalStore
from tests.support.collected_events import CollectedEvents
from tests.support.gateway_process import running_gateway
from tests.support.topic_writer import TopicWriter
from tests.support.waiting import until
from tidelog import Admin, Consumer, Producer

TIDELOG = [sys.executable, "-W", "error", "-m", "tidelog"]


def copy(source: str, target: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A backup; with a version a restore, which takes the same."""
    words = ["restore", source, "--store", target] if "--version" in options else ["backup", target, "--store", source]
    return subprocess.run([*TIDELOG, *words, *options], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def store_uris(tmp_path: Path) -> tuple[str, str]:
    """A store to copy from, and one to copy to."""
    return (tmp_path / "source").as_uri(), (tmp_path / "target").as_uri()


def append(writer: TopicWriter, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        writer.append([(number % 2, number, None, str(number).encode())])


def groups_of(store_uri: str) -> TableLog[GroupsState]:
    return TableLog(open_store(store_uri), consumer_offsets_table(), SystemClock())


def consume(log: TableLog[GroupsState], writer: TopicWriter) -> None:
    """Group ``g`` commits that it has read all there is of partition 0."""
    state = writer.log.state
    offset = OffsetRow(
        group="g",
        topic="orders",
        partition=0,
        topic_id=str(state.topic_id),
        offset=state.high_watermark(0),
        committed_at_ms=0,
    )
    consumed = CommitOffsets(group="g", offsets=(offset,))
    Committer(log, new_id=lambda: uuid.uuid4().hex).commit(Decide([consumed], lambda: uuid.uuid4().hex))


def group_offset(log: TableLog[GroupsState]) -> int:
    """Where the group goes on."""
    offset = log.refresh().group("g").offsets["orders", 0].offset
    assert offset is not None
    return offset


def test_a_commit_that_a_listing_lacks_is_copied(store_uris: tuple[str, str]) -> None:
    """A listing beside writers may lack a version and have the next. No check would find that in a copy of groups."""
    writer, target = TopicWriter(store_uris[0], "orders"), open_store(store_uris[1])
    append(writer, 5)

    class Holey(LocalStore):
        def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
            listing = super().list(prefix, start_after=start_after)
            return (info for info in listing if layout.commit_version(info.key) not in (2, 3))

    source = Holey(Path(store_uris[0].removeprefix("file://")))
    copy_table(source, target, layout.topic_root("orders"), None)
    assert verify_topic(target, "orders").record_count == 5


def test_a_copy_made_under_load_is_whole(store_uris: tuple[str, str]) -> None:
    """Every topic of the copy is proved, has at least what was there when it began, and deleted topics stay deleted. A group goes
    on there from an offset that it had committed, and that the copy has."""
    source, target = store_uris
    orders, gone = TopicWriter(source, "orders"), TopicWriter(source, "gone")
    append(gone, 3)
    gone.delete()
    append(orders, 20)
    group = groups_of(source)
    consume(group, orders)
    ending = threading.Event()

    def write_on() -> None:
        number = 20
        while not ending.wait(0.005):
            append(orders, 2, number)
            consume(group, orders)
            number += 2

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        done = copy(source, target)
    finally:
        ending.set()
        writer.join()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gone: deleted" in done.stdout
    copied = verify_topic(open_store(target), "orders", clock=SystemClock())
    whole = verify_topic(open_store(source), "orders", clock=SystemClock())
    assert (copied.ok, whole.ok) == (True, True)
    assert 20 <= copied.record_count <= whole.record_count
    copy_of_orders = TopicLog(open_store(target), "orders", SystemClock()).refresh()
    assert 10 <= group_offset(groups_of(target)) <= copy_of_orders.high_watermark(0) <= group_offset(group)


def test_a_copy_goes_on_where_it_broke_off(store_uris: tuple[str, str]) -> None:
    """Run again, it brings what came since, and what the first run lost on its way."""
    source, target = store_uris
    orders = TopicWriter(source, "orders")
    append(orders, 5)
    assert copy(source, target).returncode == 0
    store = open_store(target)
    store.delete(next(info.key for info in store.list("topics/orders/segments/")))
    append(orders, 5, 5)
    assert copy(source, target).returncode == 0
    assert verify_topic(store, "orders", clock=SystemClock()).record_count == 10


def test_a_topic_goes_back_to_a_version(store_uris: tuple[str, str]) -> None:
    """With ``--version`` the copy has what the topic had then, and can be written to from there."""
    source, target = store_uris
    orders = TopicWriter(source, "orders")
    append(orders, 4)
    version = orders.log.state.version
    append(orders, 4, 4)
    done = copy(source, target, "--topic", "orders", "--version", str(version))
    assert done.returncode == 0, done.stderr
    report = verify_topic(open_store(target), "orders", clock=SystemClock())
    assert (report.ok, report.record_count, report.orphan_count) == (True, 4, 4)


def test_what_can_not_be_restored_is_said(store_uris: tuple[str, str]) -> None:
    """A segment that is gone is named and fails the copy; so does a topic that never was, and a version without its topic."""
    source, target = store_uris
    append(TopicWriter(source, "orders"), 3)
    store = open_store(source)
    assert isinstance(store, LocalStore)
    lost = next(info.key for info in store.list("topics/orders/segments/"))
    store.delete(lost)
    done = copy(source, target)
    assert done.returncode == 1
    assert lost.rpartition("/")[2] in done.stderr
    assert copy(source, target, "--topic", "never").returncode == 1
    assert copy(source, target, "--version", "1").returncode == 2


class Eventful(LocalStore):
    """Something happens to the log while a copy is made: behind the topics, and before the journals."""

    def __init__(self, root: Path, happens: Callable[[], None]) -> None:
        super().__init__(root)
        self.happens = happens

    def list_directories(self, prefix: str) -> Iterator[str]:
        if prefix == layout.JOURNALS:
            self.happens()
        return super().list_directories(prefix)


def read_values(url: str, topic: str) -> list[bytes]:
    with Consumer(topic, bootstrap_servers=url, consumer_timeout_ms=2_000) as consumer:
        return sorted(record.value for record in consumer)


def merge(directory: Path, topic: str) -> None:
    """Maintenance merges what was flushed."""
    store, policy = LocalStore(directory), Policy(flushed_min=2)
    workers, clock = LocalWorkers(store), SystemClock()
    job = Job(store=store, workers=workers, clock=clock, report=CollectedEvents(), policy=policy, only=[topic])
    assert job.run_round(collect=False).rewrites == 1


def test_what_only_a_journal_has_is_in_the_copy(tmp_path: Path) -> None:
    """Topics at a journal: what was acknowledged is read from the copy, with no offset twice, whatever drained meanwhile.

    Meanwhile one topic is drained and merged and gets more, one leaves its journal, and one comes to it.
    """
    source, target = tmp_path / "source", tmp_path / "target"
    with running_gateway(source, tmp_path / "source.log") as gateway, Admin(gateway.url) as admin:

        def send(topic: str, *values: str) -> None:
            with Producer(gateway.url) as producer:
                for value in values:
                    producer.send(topic, value, partition=0)

        for name, mode in (("drained", "shared"), ("leaves", "shared"), ("comes", "own"), ("stays", "shared")):
            admin.create_topic(name, 1, {"commit.mode": mode, "drain.ms": 1_000 if name == "drained" else 86_400_000})
            send(name, "a", "b")

        def meanwhile() -> None:
            until(lambda: admin.describe_topic("drained").commit.undrained_records == 0)
            send("drained", "late")
            until(lambda: admin.describe_topic("drained").commit.undrained_records == 0)
            merge(source, "drained")
            send("drained", "later")
            until(lambda: admin.describe_topic("drained").commit.undrained_records == 0)
            admin.alter_topic("leaves", config={"commit.mode": "own"})
            admin.alter_topic("comes", config={"commit.mode": "shared"})
            until(lambda: admin.describe_topic("leaves").commit.mode == "own")
            until(lambda: admin.describe_topic("comes").commit.mode == "shared")
            send("comes", "late")
            send("leaves", "late")

        found = list(copy_log(Eventful(source, meanwhile), open_store(target.as_uri()), SystemClock()))
        assert [(each.topic, each.problems) for each in found] == [
            (name, ()) for name in ("comes", "drained", "leaves", "stays")
        ]
        whole = {name: read_values(gateway.url, name) for name in ("comes", "drained", "leaves", "stays")}
    with running_gateway(target, tmp_path / "target.log") as gateway:
        for name, values in whole.items():
            copied = read_values(gateway.url, name)
            assert set(copied) >= {b"a", b"b"}, name
            assert set(copied) <= set(values), name
            with Producer(gateway.url) as producer:
                stored = producer.send(name, "new", partition=0).result()
            assert stored.offset == len(copied), name
            assert read_values(gateway.url, name) == sorted([*copied, b"new"])


def test_a_restored_log_commits_transactions_and_delivers_what_was_delayed(tmp_path: Path) -> None:
    """A transaction after it ends as any does, and a delayed record comes, once, though its gateway is gone."""
    source, target = tmp_path / "source", tmp_path / "target"

    def transact(url: str, *values: str) -> None:
        with Producer(url, transactional_id="t") as producer:
            producer.init_transactions()
            for value in values:
                with producer.transaction():
                    producer.send("orders", value)

    with running_gateway(source, tmp_path / "source.log") as gateway, Admin(gateway.url) as admin:
        admin.create_topic("orders", 1)
        transact(gateway.url, "a", "b")
        with Producer(gateway.url) as producer:
            producer.send("orders", "delayed", deliver_after=8.0).result()
        found = list(copy_log(open_store(source.as_uri()), open_store(target.as_uri()), SystemClock()))
        assert [each.problems for each in found] == [()]
    with running_gateway(target, tmp_path / "target.log") as gateway:
        transact(gateway.url, "c")
        until(lambda: b"delayed" in read_values(gateway.url, "orders"))
        assert read_values(gateway.url, "orders") == [b"a", b"b", b"c", b"delayed"]


def test_another_log_is_not_written_over(store_uris: tuple[str, str]) -> None:
    """A target with another cluster's key is refused, and nothing in it changes."""
    source, target = (open_store(uri) for uri in store_uris)
    for store, key in ((source, b"one"), (target, b"other")):
        store.put_if_absent(layout.CLUSTER_KEY, key)
    done = copy(*store_uris)
    assert (done.returncode, "holds another log" in done.stderr) == (4, True), done.stderr
    assert [info.key for info in target.list("")] == [layout.CLUSTER_KEY]
