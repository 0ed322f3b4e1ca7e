"""What a gateway says of itself when it commits offsets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import gateway.engine  # noqa: F401 - the engine and its groups import each other, and this is the way in
from gateway.groups.metrics import GroupMetrics
from gateway.groups.offsets.committed import CommittedOffsets


@pytest.mark.parametrize("generation", [3, None])
async def test_a_commit_is_of_the_epoch_in_which_it_came(generation: int | None) -> None:
    """Not of the one in which it is decided: the group may have been taken over, and back, while it waited (G7)."""
    group = SimpleNamespace(row=SimpleNamespace(epoch=5), check_commit=lambda *_: None)
    decisions: list[Any] = []

    class Coordinator:
        async def claimed(self, _name: str) -> Any:
            return group

        def known(self, _name: str) -> Any:
            group.row = SimpleNamespace(epoch=6)  # taken over meanwhile, and back
            return group

    class Commits:
        async def decide(self, decision: Any) -> None:
            decisions.append(decision)

    absent: Any = None
    committed = CommittedOffsets(
        Commits(),  # type: ignore[arg-type]
        Coordinator(),  # type: ignore[arg-type]
        absent,
        absent,
        metrics=GroupMetrics(CollectorRegistry()),
    )
    await committed.commit("g", [], "m", generation)
    assert [(one.epoch, one.member, one.generation) for one in decisions] == [(5, "m", generation)]
