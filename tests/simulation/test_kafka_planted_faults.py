"""The simulation of both doors can fail: each of these defects of Kafka's door, planted into a gateway, breaks a promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.administration import Administration
from gateway.engine.bounds import EngineBounds
from gateway.kafka.calls import batch_origin, group_offsets, transactions
from gateway.kafka.known_topics import KnownTopics
from gateway.kafka.wire import batch_head
from gateway.transactions.kafka_transactions import KafkaTransactions
from log_format.errors import BackOff
from log_format.topic.append_uploaded import AppendUploadedSegments, ReencodeReason
from log_format.transactions.staged_index import decode_index
from tests.simulation.simulated.faults import CALM, FAULTY, HOSTILE, STORMY, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_kafka.world import LARGE, RENEWED, simulate_kafka
from tests.simulation.simulated_service.service import EVENTFUL, Code

SEEDS_MAX = 200
_moved = batch_head.with_base_offset
_begin = KafkaTransactions.begin
_writable = transactions._check_partitions
_refusal = AppendUploadedSegments._refusal
_commit_answer = group_offsets._commit_answer
_delete = Administration.delete


def _one_further(batch: memoryview, base_offset: int) -> Any:
    return _moved(batch, base_offset + 1)


def _nameless(*_: Any) -> batch_origin.BatchOrigin:
    """Batches are appended as often as they come."""
    return batch_origin.NO_ORIGIN


async def _by_memory(self: KafkaTransactions, producer: Any) -> Any:
    """What this gateway remembers as open is open."""
    row = self._table.state.producers.get(producer.transactional_id)
    if row is not None and row.state == "open":
        return await self.open(producer)
    return await _begin(self, producer)


async def _of_a_leader(call: Any, topic: str, partitions: tuple[int, ...]) -> Any:
    """Says of partitions that it can't look at what their leader would say."""
    try:
        return await _writable(call, topic, partitions)
    except BackOff:
        return dict.fromkeys(partitions, KafkaError.not_leader_or_follower)


async def _answers_before(call: Any, request: Any, *_: Any) -> Any:
    """Says that offsets are committed, and commits none."""
    return _commit_answer(call, request, {})


def _but_the_last(data: bytes, key: str) -> Any:
    """Leaves out a batch of a large transaction."""
    return decode_index(data, key)[:-1]


def _not_overtaken(self: AppendUploadedSegments, state: Any) -> Any:
    """Commits segments for offsets that others have taken."""
    verdict = _refusal(self, state)
    return None if verdict is ReencodeReason.OVERTAKEN else verdict


async def _by_what_it_learned(self: KnownTopics, topic_id: Any, *_: Any) -> str | None:
    """Goes by the name that an id had."""
    return await self.look_up(topic_id)


async def _deletes_whatever_has_the_name(self: Administration, name: str, *_: Any) -> None:
    await _delete(self, name)


def _commits_whichever_was_meant(decision: Any, *_: Any) -> Any:
    return decision


def _counts_those_of_the_topic_before(group: Any, ids: Any) -> Any:
    return {key: row for key, row in sorted(group.offsets.items()) if key[0] in ids}


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, where to begin, the gateways' bounds."""

    target: str
    replacement: Any
    profile: Profile
    first_seed: int = 0
    bounds: EngineBounds = EVENTFUL
    more: tuple[tuple[str, Any], ...] = ()
    """What else it takes."""


PLANTED: dict[str, Planted] = {
    "moves a producer's batch too far": Planted(
        "gateway.kafka.calls.fetched_batches.with_base_offset", _one_further, CALM
    ),
    "appends a batch that comes again": Planted("gateway.kafka.calls.produce.batch_origin", _nameless, FAULTY),
    "takes any id for the topic's": Planted(
        "gateway.kafka.known_topics.KnownTopics.is_id_of", lambda *_: True, FAULTY, first_seed=0
    ),
    "does not bear that a topic can't be looked up": Planted(
        "gateway.kafka.known_topics.KnownTopics.name", KnownTopics.look_up, FAULTY, first_seed=2
    ),
    "believes its memory of a transaction": Planted(
        "gateway.transactions.kafka_transactions.KafkaTransactions.begin", _by_memory, STORMY, first_seed=2
    ),
    "tells a transaction's client of leaders": Planted(
        "gateway.kafka.calls.transactions._check_partitions", _of_a_leader, HOSTILE, first_seed=1
    ),
    "acknowledges offsets that it does not commit": Planted(
        "gateway.kafka.calls.group_offsets._commit", _answers_before, CALM
    ),
    "deletes by a former id": Planted(
        "gateway.kafka.known_topics.KnownTopics.look_up_current",
        _by_what_it_learned,
        RENEWED,
        more=(("gateway.engine.administration.Administration.delete", _deletes_whatever_has_the_name),),
    ),
    "commits offsets by a former id": Planted(
        "gateway.kafka.known_topics.KnownTopics.look_up_current",
        _by_what_it_learned,
        RENEWED,
        more=(("gateway.kafka.calls.group_offsets._without_recreated", _commits_whichever_was_meant),),
    ),
    "counts offsets of the topic before": Planted(
        "gateway.groups.offsets.incarnations.offsets_of_incarnations", _counts_those_of_the_topic_before, RENEWED
    ),
    "leaves out a batch of a large transaction": Planted(
        "gateway.applied_transactions.staging.decode_index", _but_the_last, CALM, bounds=LARGE
    ),
    "does not see that a large transaction was overtaken": Planted(
        "log_format.topic.append_uploaded.AppendUploadedSegments._refusal",
        _not_overtaken,
        CALM,
        first_seed=20,
        bounds=LARGE,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=((planted.target, planted.replacement), *planted.more))
    assert shows(
        simulate_kafka, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code, bounds=planted.bounds
    )
