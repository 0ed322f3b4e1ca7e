"""A transactional client by Kafka's protocol: transactions of one epoch one after another, offsets of a group with them.

It asks any gateway, and each call until it knows. No other client has its transactional id, so no call that it may make
is to be told ``INVALID_TXN_STATE``. Nor is a coordinator's call to be told what only leaders are: librdkafka gives the
transaction up then.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_kafka.batches import NOBODY, Identity, batch
from tests.simulation.simulated_kafka.clients import PASSING, TRIES_MAX, KafkaClient
from tests.simulation.simulated_kafka.judge import Sent
from tests.simulation.simulated_service.network import Lost

TIMEOUT_MS: Final = 30 * SECOND_MS
OVERSLEPT_MS: Final = 31 * SECOND_MS
_OF_LEADERS: Final = frozenset({KafkaError.not_leader_or_follower, KafkaError.request_timed_out})
_SURE_NOT: Final = frozenset({KafkaError.unknown_producer_id})
"""At the commit: the transaction was given up before. Other refusals may be of a later try of the same commit."""


class Transactor:
    """One transactional id."""

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._client = client
        self._group = group
        self._identity = NOBODY
        self._sequences: dict[tuple[str, int], int] = {}
        self._offset = 0
        self._has_begun = False
        """Whether it was said that the present transaction has a partition."""
        self._in_doubt = False
        """Whether a try of the present call has no answer."""

    def run(self) -> None:
        """Live."""
        for _ in range(2 * self._client.around.turns):
            self._client.around.think()
            if self._identity is NOBODY and not self._begin():
                break
            self._one()
        self._client.leave()

    def _begin(self) -> bool:
        asked = {"transactional_id": self._client.name, "producer_id": -1, "producer_epoch": -1}
        told = self._insist("init_producer_id", 4, **asked, transaction_timeout=TIMEOUT_MS)
        if told is None or told.error_code is not KafkaError.none:
            return False
        self._identity = Identity(told.producer_id, told.producer_epoch)
        self._sequences.clear()
        return True

    def _one(self) -> None:
        """One transaction."""
        around, judge = self._client.around, self._client.judge
        sent: Sent = {}
        self._has_begun = False
        topics = around.rng.sample(around.topics, around.rng.randrange(1, len(around.topics) + 1))
        for topic in topics:
            values = self._client.values()
            sent[topic] = values
            if not self._add(topic, values) or not self._send(topic, values):
                self._abort(sent)
                return
        key = (self._group, topics[0], 0)
        offset = self._next_offset() if around.rng.random() < 0.5 else None
        started_ms = around.scheduler.now_ms
        if offset is not None and not self._send_offset(topics[0], offset):
            judge.offset_in_doubt(key, offset)
            self._abort(sent)
            return
        if around.rng.random() < 0.25:
            self._abort(sent)
            return
        if around.rng.random() < 0.1:
            around.scheduler.sleep_ms(OVERSLEPT_MS)
        outcome = self._end(is_committed=True)
        if outcome is None:
            judge.in_doubt(sent)
            if offset is not None:
                judge.offset_in_doubt(key, offset)
        elif outcome:
            judge.committed_unplaced(sent)
            if offset is not None:
                judge.offset_committed(key, offset, started_ms, around.scheduler.now_ms)
        else:
            judge.aborted(sent)
            judge.told["Kafka's transaction given up"] += 1

    def _add(self, topic: str, values: dict[int, list[bytes]]) -> bool:
        """Whether the transaction has these partitions."""
        named = {f"v3_and_below_{name}": value for name, value in self._named().items()}
        topics = [{"name": topic, "partitions": tuple(values)}]
        told = self._insist("add_partitions_to_txn", 3, **named, v3_and_below_topics=topics)
        is_added = told is not None and _error(told) is KafkaError.none
        self._has_begun |= is_added
        return is_added

    def _send(self, topic: str, values: dict[int, list[bytes]]) -> bool:
        """Whether all batches are staged."""
        client = self._client
        batches: dict[int, bytes] = {}
        for index, some in values.items():
            sequence = self._sequences.get((topic, index), 0)
            self._sequences[topic, index] = sequence + len(some)
            batches[index] = batch(some, self._identity, sequence, transactional=True)
        began_ms = client.around.scheduler.now_ms
        for _ in range(TRIES_MAX):
            line = client.line()
            told = client.outcomes(line, client.produce(line, topic, batches, transactional_id=client.name))
            errors = {KafkaError.request_timed_out} if told is None else {one.error_code for one in told.values()}
            if errors == {KafkaError.none}:
                if told is not None and any(one.base_offset >= 0 for one in told.values()):
                    raise Violation(f"{client.name} was told offsets before the commit")
                client.judge.staged(topic, values, (began_ms, client.around.scheduler.now_ms))
                return True
            if not errors <= PASSING | {KafkaError.none}:
                return False
            client.pause()
        return False

    def _next_offset(self) -> int:
        self._offset += 1
        return self._offset

    def _send_offset(self, topic: str, offset: int) -> bool:
        """Whether the group's offset is the transaction's."""
        begun = self._insist("add_offsets_to_txn", 3, **self._named(), group_id=self._group)
        if begun is None or begun.error_code is not KafkaError.none:
            return False
        one = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": topic, "partitions": [one]}]
        told = self._insist("txn_offset_commit", 2, **self._named(), group_id=self._group, topics=topics)
        return told is not None and told.topics[0].partitions[0].error_code is KafkaError.none

    def _abort(self, sent: Sent) -> None:
        """Whatever comes of it, nothing was committed. What is not ended is ended by the next epoch."""
        self._client.judge.aborted(sent)
        if self._has_begun:
            self._end(is_committed=False)
        else:
            self._identity = NOBODY

    def _end(self, *, is_committed: bool) -> bool | None:
        """Whether it ended so; None: that is not known. After a refusal the client begins another epoch."""
        told = self._insist("end_txn", 3, **self._named(), committed=is_committed)
        if told is not None and told.error_code is KafkaError.none:
            return True
        self._identity = NOBODY
        is_sure = told is not None and (not self._in_doubt or told.error_code in _SURE_NOT)
        return False if is_sure else None

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self._client.name,
            "producer_id": self._identity.producer_id,
            "producer_epoch": self._identity.epoch,
        }

    def _insist(self, name: str, version: int, **values: Any) -> Any:
        """The first answer that is no refusal for the moment; None when there is none."""
        self._in_doubt = False
        for _ in range(TRIES_MAX):
            told = self._client.line().call(name, version, **values)
            if told is not Lost.NO_ANSWER:
                error = _error(told)
                if error is KafkaError.unknown_server_error:
                    raise Violation(f"{name} of {self._client.name} met an unforeseen error")
                if error is KafkaError.invalid_txn_state or error in _OF_LEADERS:
                    raise Violation(f"{name} of {self._client.name} was told {error.name}")
                if error not in PASSING:
                    return told
            self._in_doubt = True
            self._client.pause()
        return None


def _error(told: Any) -> KafkaError:
    """The answer's worst."""
    if hasattr(told, "error_code"):
        code: KafkaError = told.error_code
        return code
    if hasattr(told, "topics"):
        found = [one.error_code for topic in told.topics for one in topic.partitions]
    else:
        found = [
            one.partition_error_code
            for topic in told.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
    return next((one for one in found if one is not KafkaError.none), KafkaError.none)
