"""A deletion that means one incarnation spares the next one, also where that is made between look and commit."""

from __future__ import annotations

import pytest

from log_format.errors import UnknownTopic
from log_format.topic.changes import DeleteTopic
from tests.support.engine import Gateway


async def test_only_the_incarnation_that_is_meant_is_deleted(gateway: Gateway) -> None:
    """The former id deletes nothing, neither by the call nor by a commit at the head."""
    administration = gateway.engine.administration
    former = (await gateway.topic("t")).state.topic_id
    await administration.delete("t", former)
    now = (await gateway.topic("t")).state.topic_id
    assert former is not None
    with pytest.raises(UnknownTopic):
        await administration.delete("t", former)
    topic = await gateway.engine.topics.fresh("t", gateway.engine.clock.monotonic_ms())
    with pytest.raises(UnknownTopic):  # the head is judged, too
        await topic.moving.change(lambda move: DeleteTopic(move=move, topic_id=former))
    assert (await administration.describe("t")).topic_id == now
