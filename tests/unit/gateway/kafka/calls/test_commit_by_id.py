"""An offset that is committed by a topic's id is never one of a topic that was made anew while the call was under way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.offsets.committed import assume_connected
from gateway.kafka.call import PendingAnswer
from gateway.kafka.calls import group_offsets
from tests.support.engine import Gateway


class Remade:
    """What the listener knows of topics. ``t`` is deleted, and made anew, as soon as it was looked at."""

    def __init__(self, gateway: Gateway, *, is_remade: bool) -> None:
        self._gateway = gateway
        self._is_remade = is_remade

    async def look_up_current(self, _topic_id: UUID, _is_allowed: object) -> str:
        if self._is_remade:
            await self._gateway.engine.administration.delete("t")
            await self._gateway.topic("t")
        return "t"


@pytest.mark.parametrize("is_remade", [False, True])
async def test_a_topic_that_is_made_anew_meanwhile_gets_no_offset(gateway: Gateway, is_remade: bool) -> None:
    """Its first records would be skipped. Where nothing happens to the topic the offset is committed."""
    topic_id = UUID((await gateway.topic("t")).state.topic_id)
    call: Any = SimpleNamespace(
        version=10,
        engine=gateway.engine,
        known_topics=Remade(gateway, is_remade=is_remade),
        session=SimpleNamespace(state={}, check_connected=assume_connected),
        require=lambda *_: None,
        allows=lambda *_: True,
        answer=lambda **members: members,
    )
    entry = SimpleNamespace(partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata="")
    topics = [SimpleNamespace(topic_id=topic_id, partitions=[entry])]
    answer: Any = await group_offsets.offset_commit(
        call, SimpleNamespace(group_id="g", member_id="", generation_id_or_member_epoch=-1, topics=topics)
    )
    if isinstance(answer, PendingAnswer):
        answer = await answer.answer
    code = answer["topics"][0]["partitions"][0]["error_code"]
    rows, _ = await gateway.engine.groups.committed.rows_of("g", None)
    found = {key: row.offset for key, row in rows.items()}
    assert (code, found) == ((KafkaError.unknown_topic_id, {}) if is_remade else (KafkaError.none, {("t", 0): 7}))
