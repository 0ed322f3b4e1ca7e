"""Requests to erase in any order with everything else that happens to a topic, against a plain model.

What is erased is never read again once the request is carried out, nor is it in any object once the request is over. Nothing else
changes: other records, later records of the same key, offsets. Half of the topics keep an archive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.cluster.identity import load_cluster
from log_format.ids import random_id
from log_format.inspection.erased import verify_erased
from log_format.inspection.verify import verify_topic
from log_format.records.erasing import Matcher, digest_of
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, hide_hash
from tests.support.collected_events import CollectedEvents
from tests.support.killed_store import Broken, KilledStore
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.records import batch_of
from tests.support.table_rows import rows_by_log

PARTITIONS = 2
HOUR_MS = 3_600_000
KEYS = (b"anna", b"bo", b"cy")
POLICY = Policy(target_bytes=9_000, sources_max=3, flushed_min=2, fan_in=2)


@dataclass
class Kept:
    """A record of the model. ``erased_by``: ids of the requests that are about it."""

    key: bytes
    value: bytes
    erased_by: set[str] = field(default_factory=set)


class ErasureMachine(RuleBasedStateMachine):
    """Two maintainers know of each other only by the store; one of them may be killed before any of its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = MaintenanceBench(make_store=KilledStore)
        self.numbers = count(1)
        self.model: list[list[Kept]] = [[] for _ in range(PARTITIONS)]
        self.keys_of: dict[str, bytes] = {}
        self.over: set[str] = set()

    @initialize(grace_ms=st.sampled_from([0, 24 * HOUR_MS]), archives=st.booleans())
    def create(self, grace_ms: int, archives: bool) -> None:
        """A topic whose records can be found in the bytes of its objects, and which keeps everything, in its table at least."""
        more = {"erase_grace_ms": grace_ms, "deleted_file_retention_ms": 7 * 24 * HOUR_MS}
        more |= {"retention_ms": 10 * HOUR_MS, "table_retention_ms": -1} if archives else {"retention_ms": -1}
        self.bench.create(PARTITIONS, compression_type="uncompressed", **more)
        self.jobs = [self.new_job() for _ in range(2)]

    def new_job(self) -> Job:
        return Job(
            store=self.bench.store,
            workers=LocalWorkers(self.bench.store),
            clock=self.bench.clock,
            report=CollectedEvents(),
            policy=replace(POLICY),
            new_id=self.bench.new_id,
        )

    @rule(rows=st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.sampled_from(KEYS)), min_size=1, max_size=4))
    def append(self, rows: list[tuple[int, bytes]]) -> None:
        values = [b"<%d>" % next(self.numbers) for _ in rows]
        batch = batch_of(
            self.bench.log.refresh().topic_id,
            values,
            [partition for partition, _ in rows],
            keys=[key for _, key in rows],
            timestamps_ms=self.bench.clock.now_ms(),
            record_bytes_max=10,
        )
        self.bench.commit(Append([batch], self.bench.new_id))
        for (partition, key), value in zip(rows, values, strict=True):
            self.model[partition].append(Kept(key, value))

    @rule(key=st.sampled_from(KEYS), is_filtered=st.booleans())
    def erase(self, key: bytes, is_filtered: bool) -> None:
        name = f"e{next(self.numbers)}"
        secret = load_cluster(self.bench.store, random_id).producer_key
        wanted = (Matcher(digest_of(secret, key)),)
        hidden = (hide_hash(secret, key),) if is_filtered else ()
        erasure = Erasure(erasure_id=name, requested_ms=0, wanted=wanted, hidden_hashes=hidden)
        self.bench.commit(RequestErasure(topic_id=self.bench.log.refresh().existing_id, erasure=erasure))
        self.keys_of[name] = key
        for kept in (one for rows in self.model for one in rows if one.key == key):
            kept.erased_by.add(name)

    @rule(which=st.integers(0, 1), collect=st.booleans(), puts_left=st.one_of(st.none(), st.integers(0, 8)))
    def maintain(self, which: int, collect: bool, puts_left: int | None) -> None:
        store = self.bench.store
        assert isinstance(store, KilledStore)
        store.puts_left = puts_left
        try:
            assert not self.jobs[which].run_round(collect=collect).failed_topics
        except Broken:
            self.jobs[which] = self.new_job()
        finally:
            store.puts_left = None
        left = {one.erasure_id for one in self.bench.log.refresh().erasures}
        self.over |= self.keys_of.keys() - left

    @rule(hours=st.sampled_from([1, 13, 30]))
    def wait(self, hours: int) -> None:
        self.bench.clock.pass_ms(hours * HOUR_MS)

    @rule(policy=st.sampled_from(["delete", "compact", "compact,delete"]))
    def alter(self, policy: str) -> None:
        self.bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": policy}))

    @invariant()
    def reads_what_the_model_allows(self) -> None:
        """Each record has its value, or lost it to a request; after the request was carried out it has none."""
        if not hasattr(self, "jobs"):
            return
        state = self.bench.log.refresh()
        rewritten = self.over | {one.erasure_id for one in state.erasures if one.is_rewritten}
        for partition, rows in enumerate(self.model):
            found = self.bench.read(partition, state)
            offsets = [offset for offset, _ in found]
            assert offsets == sorted(set(offsets))
            if not state.keys_compacted[partition]:
                assert offsets == list(range(state.log_start(partition), len(rows)))
            self.allows(partition, found, rewritten)

    @invariant()
    def has_rows_in_the_table_once(self) -> None:
        """Below the log starts, too, each row is there, once, with what the model allows."""
        if not hasattr(self, "jobs"):
            return
        state = self.bench.log.refresh()
        rewritten = self.over | {one.erasure_id for one in state.erasures if one.is_rewritten}
        table = rows_by_log(self.bench.store, "t", self.bench.clock)
        for partition, rows in enumerate(self.model):
            found = [(offset, value) for at, offset, _, value in table if at == partition]
            offsets = sorted(offset for offset, _ in found)
            assert len(offsets) == len(set(offsets))
            if not state.keys_compacted[partition]:
                assert offsets == list(range(len(rows)))
            self.allows(partition, found, rewritten)

    def allows(self, partition: int, found: list[tuple[int, bytes | None]], rewritten: set[str]) -> None:
        """Each record has its value or lost it to a request, and has none after the request was carried out."""
        for offset, value in found:
            kept = self.model[partition][offset]
            assert value == kept.value or (value is None and kept.erased_by)
            assert value is None or not kept.erased_by & rewritten

    @invariant()
    def has_nothing_of_what_is_over(self) -> None:
        """No object of the topic, and none of its log, has a value that a finished request erased; the check says the same."""
        gone = {kept.value for rows in self.model for kept in rows if kept.erased_by & self.over}
        if not gone:
            return
        for info in self.bench.store.list("topics/t/"):
            data = self.bench.store.get(info.key)
            assert not any(value in data for value in gone), info.key
        for name in self.over:
            assert not verify_erased(self.bench.store, "t", self.keys_of[name], self.bench.clock).left or any(
                self.keys_of[one] == self.keys_of[name] for one in self.keys_of.keys() - self.over
            )

    def teardown(self) -> None:
        """In the end each request is over, and the log is whole."""
        if not hasattr(self, "jobs"):
            return
        for _ in range(4):
            self.maintain(0, collect=True, puts_left=None)
            self.reads_what_the_model_allows()
            self.has_nothing_of_what_is_over()
            self.bench.clock.pass_ms(26 * HOUR_MS)
        assert not self.bench.log.refresh().erasures
        problems: Any = verify_topic(self.bench.store, "t", clock=self.bench.clock).problems
        assert problems == ()


class TestErasures(ErasureMachine.TestCase):  # type: ignore[misc,valid-type]
    """Whatever happens in between, what is erased goes, and nothing else."""

    settings = settings(max_examples=40, stateful_step_count=25, phases={*Phase} - {Phase.explain})
