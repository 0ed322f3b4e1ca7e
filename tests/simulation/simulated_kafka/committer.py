"""One that commits offsets of a group by either door, and reads by both what is committed."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from tests.simulation.simulated_kafka.clients import KafkaClient
from tests.simulation.simulated_kafka.line import Line
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import Service

BY_ID: Final = 10
"""From which on OffsetCommit and OffsetFetch name topics by their ids."""


class Committer:
    """Commits offsets of a group without members, and reads what is committed, by either door."""

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._client = client
        self._group = group
        self._last: dict[tuple[str, int], int] = {}
        self._topic_id: UUID | None = None
        """The topic that the present commit names by its id."""

    def run(self) -> None:
        """Live."""
        around = self._client.around
        for _ in range(2 * around.turns):
            around.think()
            key = (around.rng.choice(around.topics), around.rng.randrange(around.partitions_made))
            self._last[key] = self._last.get(key, 0) + around.rng.randrange(1, 4)
            started_ms, self._topic_id = around.scheduler.now_ms, None
            outcome = (self._by_kafka if around.rng.random() < 0.6 else self._by_http)(*key, self._last[key])
            told, topic_id = (self._group, *key), None if self._topic_id is None else str(self._topic_id)
            if outcome is None:
                self._client.judge.offset_in_doubt(told, self._last[key], topic_id)
            elif outcome:
                now_ms = around.scheduler.now_ms
                self._client.judge.offset_committed(told, self._last[key], started_ms, now_ms, topic_id)
            self.look(self._client.line(), self._client.line().service, key)
        self._client.leave()

    def look(self, line: Line, service: Service, key: tuple[str, int]) -> None:
        """Read by both doors of a gateway."""
        clock, judge = self._client.around.scheduler, self._client.judge
        started_ms = clock.now_ms
        topics = [{"name": key[0], "partition_indexes": [key[1]]}]
        told = line.call("offset_fetch", 7, group_id=self._group, topics=topics, require_stable=True)
        if told is not Lost.NO_ANSWER and told.error_code is KafkaError.none:
            (one,) = told.topics[0].partitions
            if one.error_code is KafkaError.none:
                found = None if one.committed_offset < 0 else one.committed_offset
                judge.offset_read((self._group, *key), found, "Kafka", started_ms, clock.now_ms)
        if self._client.faults.profile.recreation:
            self._look_by_id(line, key)
        started_ms = clock.now_ms
        reply = self._client.around.ask(service, "GET", f"/v1/groups/{self._group}/offsets")
        if isinstance(reply, Reply) and (reply.status == 200 or reply.error_code == "UNKNOWN_GROUP"):
            offsets = {(one["topic"], one["partition"]): one["offset"] for one in reply.body.get("offsets", ())}
            judge.offset_read((self._group, *key), offsets.get(key), "HTTP", started_ms, clock.now_ms)

    def _look_by_id(self, line: Line, key: tuple[str, int]) -> None:
        topic_id = self._client.topic_id(line, key[0])
        if topic_id is None:
            return
        wanted = [{"topic_id": topic_id, "partition_indexes": [key[1]]}]
        group = {"group_id": self._group, "member_id": None, "member_epoch": -1, "topics": wanted}
        started_ms = self._client.around.scheduler.now_ms
        told = line.call("offset_fetch", BY_ID, groups=[group], require_stable=True)
        if told is Lost.NO_ANSWER or told.groups[0].error_code is not KafkaError.none:
            return
        (one,) = told.groups[0].topics[0].partitions
        if one.error_code is KafkaError.none:
            found = None if one.committed_offset < 0 else one.committed_offset
            self._client.judge.offset_read_by_id((self._group, *key), found, str(topic_id), started_ms)

    def _by_kafka(self, topic: str, partition: int, offset: int) -> bool | None:
        """Whether it is committed; None: that is not known."""
        one = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        line = self._client.line()
        named: dict[str, Any] = {"name": topic}
        version = self._client.rng.choice((2, 8) if not self._client.faults.profile.recreation else (2, BY_ID, BY_ID))
        if version == BY_ID:
            # As it was told some time: it may be another topic's by now.
            self._topic_id = self._client.topic_id(line, topic)
            if self._topic_id is None:
                return False
            named = {"topic_id": self._topic_id}
        told = line.call(
            "offset_commit",
            version,
            group_id=self._group,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time=-1,
            topics=[{**named, "partitions": [one]}],
        )
        if told is Lost.NO_ANSWER:
            return None
        error = told.topics[0].partitions[0].error_code
        if error is KafkaError.unknown_topic_id:
            self._client.judge.told["offset of a former topic refused"] += 1
            self._client.forget_ids()
        # An outcome that is not known is told as what a client repeats, as a broker does.
        return None if error is KafkaError.coordinator_not_available else error is KafkaError.none

    def _by_http(self, topic: str, partition: int, offset: int) -> bool | None:
        body = {"offsets": [{"topic": topic, "partition": partition, "offset": offset}]}
        reply = self._client.around.call("PUT", f"/v1/groups/{self._group}/offsets", body)
        if isinstance(reply, Lost):
            return None if reply is Lost.NO_ANSWER else False
        return None if reply.status >= 400 and reply.may_have_happened else reply.status == 200
