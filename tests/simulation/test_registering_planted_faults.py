"""The simulation of callers that register at once can fail: each defect here, planted into the real code, breaks a promise."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from log_format.schemas.changes import Register
from log_format.schemas.state import SchemasState
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_calls.registering_world import simulate_registering
from tests.simulation.simulated_service.service import Code

SEEDS_MAX = 30


async def _is_there(*_: Any) -> bool:
    return True


async def _looks_never(_self: Any) -> None:
    await asyncio.sleep(3_600)


async def _renews_never(_self: Any) -> None:
    return


def _checks_nothing(*_: Any) -> None:
    return None


def _counts_what_is_there(_self: Register, state: SchemasState) -> int:
    return 1 + max((one.id for one in state.schemas), default=0)


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and where to begin."""

    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


PLANTED: dict[str, Planted] = {
    "answers a known registration by what it knew a moment ago": Planted(
        (("gateway.schemas.schema_registry.SchemaRegistry._is_there", _is_there),), first_seed=22
    ),
    "commits what was compared with other versions": Planted(
        (("log_format.schemas.changes.Recheck", lambda _subject: None),)
    ),
    "gives an id that was deleted": Planted(
        (("log_format.schemas.changes.Register._next_id", _counts_what_is_there),), first_seed=18
    ),
    "knows no change of rights through the other gateway": Planted(
        (
            ("gateway.access.watch.AccessWatch._round", _looks_never),
            ("gateway.access.rights.Rights.refresh_if_old", _renews_never),
            ("gateway.access.rights.Rights.check_recent", _checks_nothing),
        )
    ),
    "lets through who has no right": Planted((("gateway.access.rights.Rights.require", _checks_nothing),)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    assert shows(simulate_registering, planted.first_seed, SEEDS_MAX, code=Code(planted=planted.targets))
