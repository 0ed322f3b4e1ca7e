"""The figures of ``python -m benchmarks topics``: what is read from notes of the store's requests, and what is said of them."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import trace
from benchmarks.harness.counted_gateway import KEYS_PER_LISTING, KINDS, OWNERS, ROW, CountedStore, classified
from benchmarks.harness.percentiles import Array
from benchmarks.topics.answers import Answers
from benchmarks.topics.drain import next_offset, table_lags
from benchmarks.topics.fan_out import commits
from benchmarks.topics.outcome import Outcome, ratios, shown
from benchmarks.topics.picture import COST, dollars_a_month, prices
from benchmarks.topics.readers import owner_of
from benchmarks.topics.site import DEFAULT_MODE, Run, committers
from benchmarks.topics.takeover import recovery
from log_format import layout
from log_format.errors import ObjectExists
from log_format.stores.memory import MemoryStore

RUN = Run(tree=Path(), store="directory", mode=DEFAULT_MODE)


def note(key: str, start: float, end: float, *, size: int = 0, ok: bool = True) -> bytes:
    """A PUT."""
    table, version, kind, owner = classified(key)
    return ROW.pack(start, end, table, version, size, 0, kind, owner, ok)


def rows(*notes: bytes) -> Array:
    return np.frombuffer(b"".join(notes), trace.ROWS)


def answers(due: list[float], done: list[float], code: list[int], topic: list[int], offset: list[int]) -> Answers:
    zeros = np.zeros(len(due), np.int64)
    return Answers(
        due=np.array(due),
        done=np.array(done),
        code=np.array(code),
        topic=np.array(topic),
        gateway=zeros,
        offset=np.array(offset),
        record_bytes=zeros,
        codes=("acknowledged", "no answer"),
        cpu_seconds=0.0,
        connections=1,
    )


@pytest.mark.parametrize(
    ("key", "kind", "owner", "version"),
    [
        (layout.topic_root("a") + layout.segment_path("x"), "segment", "topic", 0),
        (layout.topic_root("a") + layout.compacted_path("x"), "segment", "topic", 0),
        (layout.commit_key("a", 17), "commit", "topic", 17),
        (layout.checkpoint_key("a", 20), "checkpoint", "topic", 0),
        (layout.last_checkpoint_key("a"), "checkpoint", "topic", 0),
        (layout.table_commit_key("system/journals/3/", 5), "commit", "journal", 5),
        ("system/journals/3/segments/x.parquet", "segment", "journal", 0),
        (layout.table_commit_key(layout.CONSUMER_OFFSETS_ROOT, 5), "commit", "system", 5),
        (layout.GATEWAYS + "g.json", "other", "gateways", 0),
        (layout.CLUSTER_KEY, "other", "gateways", 0),
    ],
)
def test_a_key_tells_what_it_is(key: str, kind: str, owner: str, version: int) -> None:
    """Each key of the layout has its kind and its owner; a commit has its version."""
    _, found_version, found_kind, found_owner = classified(key)
    assert (KINDS[found_kind], OWNERS[found_owner], found_version) == (kind, owner, version)


def test_every_request_is_noted(tmp_path: Path) -> None:
    """A store's requests become rows, refused ones too; a listing one for each thousand keys; a torn last row is left out."""
    path = tmp_path / "notes"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    memory = MemoryStore()
    store = CountedStore(memory, file)
    store.put_if_absent(layout.commit_key("a", 1), b"12345")
    with pytest.raises(ObjectExists):
        store.put_if_absent(layout.commit_key("a", 1), b"12345")
    store.get(layout.commit_key("a", 1))
    for number in range(KEYS_PER_LISTING):
        memory.put(f"topics/b/segments/{number}", b"")
    assert len(list(store.list("topics/b/"))) == KEYS_PER_LISTING
    assert store.uri == memory.uri
    os.write(file, b"torn")
    os.close(file)
    found = trace.read(path)
    assert found["verb"].tolist() == [0, 0, 1, 3, 3]
    assert found["ok"].tolist() == [1, 0, 1, 1, 1]
    assert found["bytes"].tolist() == [5, 5, 0, 0, 0]
    assert set(found["table"].tolist()) == {trace.table_of("a"), trace.table_of("b")}
    assert trace.rates(found, 2.0)["PUT/s commit"] == 1
    assert trace.rates(found, 2.0)["GET/s"] == 1.5
    assert trace.requests_for_topics(path) == 5
    assert committers([found, found[:0]]) == [1, 0]


def test_a_commit_is_timed_from_its_last_segment() -> None:
    """The largest commit of a burst: from the end of the last segment before it to its end; journals before topics."""
    burst = rows(
        note("system/journals/0/segments/x", 1.00, 1.02),
        note("system/journals/0/segments/y", 1.00, 1.05),
        note(layout.table_commit_key("system/journals/0/", 1), 1.06, 1.07, size=900),
        note("system/journals/0/segments/z", 1.05, 1.30),
        note(layout.commit_key("drained", 1), 1.00, 1.90, size=9_000),
    )
    found = commits(burst)
    assert (found["commits"], found["largest"]) == (1, 900)
    assert found["ms"] == pytest.approx(20)
    assert found["put_ms"] == pytest.approx(10)
    assert commits(burst[:0])["commits"] == 0


def test_recovery_ends_with_the_last_slow_or_refused_request() -> None:
    """Refused requests count until they were due, slow ones until their acknowledgement; each topic's first one counts."""
    found = answers(
        due=[9.5, 10.2, 11.0, 12.0, 14.0],
        done=[12.0, math.nan, 13.5, 12.2, 14.2],
        code=[0, 1, 0, 0, 0],
        topic=[0, 0, 0, 0, 1],
        offset=[0, -1, 1, 0, 2],
    )
    assert recovery(found, 10.0) == {
        "every topic acknowledged after, s": pytest.approx(4.2),
        "slow or refused until, s": pytest.approx(3.5),
    }


def test_a_topic_that_never_goes_on_is_seen() -> None:
    """Without an acknowledgement behind the kill both times are infinite, not zero."""
    found = answers(due=[10.5], done=[math.nan], code=[1], topic=[0], offset=[-1])
    assert set(recovery(found, 10.0).values()) == {math.inf}


def test_a_record_lags_until_the_commit_that_has_it() -> None:
    """The first commit of the table whose next offset is beyond the record; what no commit has is counted."""
    store = MemoryStore()
    ends = {1: 2, 2: None, 3: 5}
    for version, end in ends.items():
        actions: list[dict[str, object]] = [{"commitInfo": {}}]
        actions += [] if end is None else [{"txn": {"appId": "0", "version": end}}]
        store.put(layout.commit_key("t", version), "\n".join(map(json.dumps, actions)).encode())
    puts = rows(*(note(layout.commit_key("t", version), 0, 10.0 * version) for version in ends))
    sent = answers([0] * 4, [1, 1, 2, 3], [0] * 4, [0] * 4, [0, 1, 4, 5])
    lags, missing_count = table_lags(sent, ["t"], puts, store)
    assert lags.tolist() == [9_000, 9_000, 28_000]
    assert missing_count == 1
    assert next_offset(store.get(layout.commit_key("t", 2))) == -1


def test_a_topics_owner_is_the_gateway_that_commits_it() -> None:
    """By its own commits; where there are journals, the gateway with most of their commits."""
    first = rows(note(layout.commit_key("a", 1), 0, 1))
    second = rows(note(layout.commit_key("b", 1), 0, 1), note(layout.commit_key("a", 1), 0, 1, ok=False))
    assert owner_of(["a", "b", "c"], [first, second]).tolist() == [0, 1, -1]
    journal = rows(note(layout.table_commit_key("system/journals/0/", 1), 0, 1))
    assert owner_of(["a", "b", "c"], [first, journal]).tolist() == [1, 1, 1]


def test_dollars_follow_the_documents_prices() -> None:
    """1,000 topics with two PUTs a second each are 26,280 $ a month; what was not acknowledged is counted as if it were."""
    price = prices(COST.read_text())
    assert price == pytest.approx({"PUT": 5e-6, "GET": 4e-7})
    figures = {"PUT/s": 2_000.0, "GET/s": 0.0, "due/s": 1_000.0, "acknowledged/s": 1_000.0}
    assert dollars_a_month(figures, price) == pytest.approx(26_280)
    assert dollars_a_month({**figures, "acknowledged/s": 500.0}, price) == pytest.approx(52_560)
    assert dollars_a_month({**figures, "acknowledged/s": 1_100.0}, price) == pytest.approx(26_280)


def test_puts_of_many_topics_are_compared_with_those_of_few() -> None:
    """Only where the same run measured both."""
    few, many = (
        Outcome(case=case, run=RUN, figures={"PUT/s": puts}) for case, puts in (("10x1", 8.0), ("1000x1", 9.0))
    )
    (ratio,) = ratios([few, many])
    assert ratio.figures == {"PUT/s beside those of 10x1": 1.125}
    assert ratios([many]) == []


def test_figures_are_shown_for_people_and_machines() -> None:
    """Three digits that count; a figure that there is none of is a dash for people, null for machines."""
    assert [shown(value) for value in (0.01234, 12.34, 1234.5, math.nan, None, 1_000, "x")] == [
        "0.0123",
        "12.3",
        "1,234",
        "-",
        "-",
        "1,000",
        "x",
    ]
    outcome = Outcome(case="c", run=RUN, figures={"a ms": math.nan, "b": 1.5}, wanted={"b": 1})
    assert json.loads(json.dumps(outcome.as_json(), allow_nan=False))["figures"] == {"a ms": None, "b": 1.5}
