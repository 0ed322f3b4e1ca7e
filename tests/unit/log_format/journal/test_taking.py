"""Objects of other gateways: which of them a commit takes up, and what its maker knows of it without reading it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from log_format import limits
from log_format.delta.actions import CommitInfo, as_decoded_commit, decode_commit, encode_commit
from log_format.delta.change import Proposal, TableChange
from log_format.journal.append import JournalAppend, RoutedBatch
from log_format.journal.commit_offers import CommitOffers
from log_format.journal.content import JournalCommit, decode_content
from log_format.journal.entries import Close, encode_entries
from log_format.journal.notes import JournalNotes
from log_format.journal.offer import Offer, decode_offer, encode_offer
from log_format.journal.state import JournalState
from log_format.stores.memory import MemoryStore
from log_format.topic import producer_id
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.producers import ProducerStamp
from tests.support.clocks import EPOCH_MS, ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.journal_bench import JournalBench
from tests.support.records import batch_of

STAMP = ProducerStamp(producer_id.issue(producer_id.PLAIN, EPOCH_MS, f"{1:020x}", b"key"), 0, 0)


@pytest.fixture
def bench() -> JournalBench:
    clock = ManualClock()
    return JournalBench(FaultyStore(MemoryStore(clock=clock)), clock)


def offered(bench: JournalBench, state: JournalState, routed: Sequence[RoutedBatch]) -> Offer:
    """An object with these batches, as it comes from another gateway."""
    append = JournalAppend(routed, bench.new_id)
    append.stage(state, bench.clock.now_ms())
    assert append.offer is not None
    return decode_offer(encode_offer(0, append.offer))[1]


def known_and_read(state: JournalState, proposal: Proposal[object]) -> tuple[JournalCommit, JournalCommit]:
    """What the maker of a commit knows of it, and what its bytes say."""
    info = CommitInfo(timestamp=7, operation="WRITE", txn_id="id", tags=dict(proposal.tags or {}))
    known = decode_content(as_decoded_commit(info, proposal.actions, proposal.content))
    read = decode_content(decode_commit(encode_commit(info, proposal.actions), "key"))
    assert known.apply_to(state.topics).encoded() == read.apply_to(state.topics).encoded()
    return known, read


def plain(content: JournalCommit) -> tuple[str, list[object], int]:
    """In a form that can be compared."""
    objects: list[object] = [
        (one.ref, [(found.topic_id, [*found.runs], [*found.stamped], {**found.applied}) for found in one.topics])
        for one in content.objects
    ]
    return encode_entries(content.entries), objects, content.commit_ms


def test_a_commit_is_known_as_it_is_read(bench: JournalBench) -> None:
    """Its maker applies it without reading it: runs, stamps, transactions and entries, of flushes and of taken objects."""
    a, b, c = (bench.topic(name) for name in "abc")
    journal = bench.journal()
    routed = [
        RoutedBatch(b, batch_of(b.topic_id, [b"1", b"2"], [0, 1])),
        RoutedBatch(a, batch_of(a.topic_id, [b"3"], 1, stamp=STAMP)),
        RoutedBatch(c, batch_of(c.topic_id, [b"4"], 0, transaction=TransactionStamp("t", 3, 2))),
        RoutedBatch(b, batch_of(b.topic_id, [b"5"], 1)),
    ]
    for _ in range(2):
        state = journal.state
        other = offered(bench, state, [RoutedBatch(b, batch_of(b.topic_id, [b"6"], 1))])
        changes: list[TableChange[JournalState, object]] = [
            JournalAppend(routed, bench.new_id, notes=[Close("gone", 4)]),
            CommitOffers([offered(bench, state, routed), other], notes=[Close("gone", 4)]),
        ]
        for change in changes:
            proposal = change.propose(state, bench.clock.now_ms())
            assert proposal.content is not None
            known, read = known_and_read(state, proposal)
            assert plain(known) == plain(read)
            found = [(one.topic_id, len(one.stamped), len(one.applied)) for one in read.objects[0].topics]
            assert found == [("a-id", 1, 0), ("b-id", 0, 0), ("c-id", 0, 1)]
        bench.append(journal, (a, [b"0"], 0), (b, [b"0"], 0))
    assert JournalNotes([Close("gone", 4)]).propose(journal.state, 0).content is None


def test_plain_batches_get_the_places_that_others_get(bench: JournalBench) -> None:
    """Those of which only the number of records is judged are judged together, behind and before those with more to judge."""
    a, b = bench.topic("a"), bench.topic("b")
    journal = bench.journal()
    bench.append(journal, (a, [b"0"], 1))
    plain = [
        RoutedBatch(a, batch_of(a.topic_id, [b"1", b"2", b"3"], [1, 0, 1])),
        RoutedBatch(b, batch_of(b.topic_id, [b"4"], 1)),
        RoutedBatch(a, batch_of(a.topic_id, [b"5"], 1)),
    ]
    expecting = [RoutedBatch(a, batch_of(a.topic_id, [b"6"], 1, expected_offset=4))]
    wrong = [RoutedBatch(a, batch_of(a.topic_id, [b"7"], 1, expected_offset=4))]
    offers = [offered(bench, journal.state, routed) for routed in (plain, expecting, wrong, plain)]
    first, second, third, fourth = bench.committer(journal).commit(CommitOffers(offers)).result
    assert first is not None
    assert second is not None
    assert fourth is not None
    assert [one.bases for one in (first, second, fourth)] == [(0, 1, 0), (4,), (1, 5, 1)]  # type: ignore[union-attr]
    assert third is None
    topics = bench.journal().state.topics.by_id
    assert [topics[f"{name}-id"].next_offsets.tolist() for name in "ab"] == [[2, 8], [0, 2]]
    assert bench.append(journal, (a, [b"8"], 1)) == [(AppendedRange(1, 8, 1),)]


def test_a_commit_takes_ten_thousand_runs_at_most(bench: JournalBench) -> None:
    """A run is counted once, whichever objects have it. An object that does not fit is refused whole."""
    a = bench.topic("a", partition_count=limits.PARTITION_COUNT_MAX)
    b = bench.topic("b")
    journal = bench.journal()
    every = list(range(limits.PARTITION_COUNT_MAX - 1))
    wide = offered(bench, journal.state, [RoutedBatch(a, batch_of(a.topic_id, [b""] * len(every), every))])
    one = offered(bench, journal.state, [RoutedBatch(b, batch_of(b.topic_id, [b"1"], 0))])
    again = replace(one, path="segments/again.parquet")
    more = offered(bench, journal.state, [RoutedBatch(b, batch_of(b.topic_id, [b"2"], 1))])
    result = bench.committer(journal).commit(CommitOffers([wide, one, again, more])).result
    assert [taken is not None for taken in result] == [True, True, True, False]
    assert bench.journal().state.topics.by_id["b-id"].next_offsets.tolist() == [2, 0]
