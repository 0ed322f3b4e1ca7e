"""Each call of the API is broken off right behind a write that stands, in many histories (docs/http-api.md section 1.7; G8).

``make simulate SEEDS=10000`` runs more histories; ``TIDELOG_CALLS_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.app import ROUTERS
from gateway.applied_transactions.staging import Staging
from gateway.groups.offsets.committed import CommittedOffsets
from gateway.schemas.schema_registry import SchemaRegistry
from gateway.transactions.transactions import Transactions
from log_format.errors import BackOff, ErrorCode, StoreUnavailable
from log_format.schemas.changes import Register
from log_format.schemas.refusals import RegistryCode
from log_format.schemas.state import SchemasState
from tests.simulation.simulated.seeds import Seeds, seed_that_shows
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_calls.registry_calls import EVERY_KIND
from tests.simulation.simulated_calls.world import Break, simulate_calls
from tests.simulation.simulated_service.service import Code

_register = SchemaRegistry.register
SEEDS = Seeds("CALLS", 24, at_once=8)
PLANTED_SEEDS_MAX = 40
READS_ONLY = {"POST /v1/credentials", "POST /v1/fetch", "POST /v1/sql", "POST /v1/whoami:test"}
READS_ONLY |= {
    "POST /registry/subjects/{subject}",
    "POST /delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/query",
}
_ICEBERG_TABLE = "/iceberg/v1/namespaces/{namespace}/tables/{table}"
READS_ONLY |= {"POST /iceberg/v1/oauth/tokens", *(f"POST {_ICEBERG_TABLE}/{act}" for act in ("plan", "tasks", "sign"))}
READS_ONLY |= {f"DELETE {_ICEBERG_TABLE}/plan/{{plan}}"}  # no gateway holds anything for a plan
READS_ONLY |= {f"POST /registry/compatibility/subjects/{{subject}}/versions{which}" for which in ("", "/{version}")}


@pytest.mark.parametrize("part", SEEDS.parts)
def test_refused_means_that_nothing_changed(part: int) -> None:
    """Whatever breaks, behind whichever write: a refused call changes nothing that a client can ever see; a change that stands
    is a success.
    """
    for seed in SEEDS.of(part):
        simulate_calls(seed, on_note=SEEDS.on_note)


def test_every_call_that_changes_something_is_broken_off() -> None:
    """No route is left out, and each breaks, in each way, and is refused, in doubt and done."""
    routes = {f"{method} {route.path}" for router in ROUTERS for route in router.routes for method in route.methods}  # type: ignore[attr-defined]
    of_gateways = {route for route in routes if " /gateways/" in route}  # no client may call them
    of_access = {
        route for route in routes if " /v1/access" in route
    }  # refused with auth=off, as the simulation's gateways run
    changing = {route for route in routes if not route.startswith(("GET ", "HEAD "))}
    by_threads = {"POST /v1/topics/{topic}:clone"}  # copies files by threads of its own, whose order no seed gives
    assert set(EVERY_KIND) == changing - READS_ONLY - of_gateways - of_access - by_threads
    seen: Counter[str] = Counter()
    for number, route in enumerate(EVERY_KIND):
        for history in range(1, 9):
            seen += simulate_calls(history * 1_000_000 + number, route=route).seen
            if history > 1 and seen[f"{route}: broken"]:
                break
    assert [route for route in EVERY_KIND if not seen[f"{route}: broken"]] == []
    expected = [
        *(kind.value for kind in Break),
        "refused",
        "in doubt",
        "done",
        "done, and then broken",
        "refused values",
    ]
    assert [name for name in expected if not seen[name]] == []


async def _lists_afresh(self: CommittedOffsets, name: str, *arguments: Any) -> Any:
    await self.commit(name, *arguments)
    return await self.offsets(name)


def _refused_all_the_same(_poll: Any, problem: Any, _memory: Any) -> Any:
    raise problem


async def _believes_a_lost_answer(self: Staging, key: str, data: bytes) -> None:
    try:
        await self._pool.run(self._store.put, key, data)
    except StoreUnavailable as problem:
        raise BackOff(problem.detail) from problem


async def _refuses_what_is_staged(self: Transactions, transaction_id: str) -> None:
    await self.require_open(transaction_id)


async def _looks_behind_its_registration(self: SchemaRegistry, wanted: Any) -> Any:
    registered = await _register(self, wanted)
    await self._table.fresh()
    return registered


def _counts_what_is_there(_self: Register, state: SchemasState) -> int:
    return 1 + max((one.id for one in state.schemas), default=0)


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the route that shows it."""

    route: str
    targets: tuple[tuple[str, Any], ...]


UNGUARDED: tuple[tuple[str, Any], ...] = (
    ("gateway.asgi.problems._late_refusal", lambda error: error),
    ("gateway.engine.log_look.check_may_ask_store", lambda: None),
    ("gateway.engine.open_table.check_may_ask_store", lambda: None),
    ("gateway.engine.shared_commits.check_may_ask_store", lambda: None),
    ("gateway.engine.pool.check_may_ask_store", lambda: None),
)
"""Without the seams that make the class impossible."""
REGISTER = "POST /registry/subjects/{subject}/versions"
STAGE = "POST /v1/topics/{topic}/records"
PLANTED: dict[str, Planted] = {
    "looks at a group again after its commit": Planted(
        "PUT /v1/groups/{group}/offsets",
        (("gateway.groups.offsets.committed.CommittedOffsets.put", _lists_afresh), *UNGUARDED),
    ),
    "refuses a poll whose commit stands": Planted(
        "POST /v1/groups/{group}/poll",
        (("gateway.groups.calls.polling._fail_all_partitions", _refused_all_the_same), *UNGUARDED),
    ),
    "takes the lost answer of a staging put for a refusal": Planted(
        STAGE, (("gateway.applied_transactions.staging.Staging._stored", _believes_a_lost_answer),)
    ),
    "refuses what is staged when it can't look again": Planted(
        STAGE, (("gateway.transactions.transactions.Transactions._check_still_open", _refuses_what_is_staged),)
    ),
    "gives an id that was deleted": Planted(
        REGISTER, (("log_format.schemas.changes.Register._next_id", _counts_what_is_there),)
    ),
    "looks at the registry again after its registration": Planted(
        REGISTER,
        (("gateway.schemas.schema_registry.SchemaRegistry.register", _looks_behind_its_registration), *UNGUARDED),
    ),
    "says that a registration in doubt is refused": Planted(
        REGISTER,
        (("gateway.registry_problem._CODES", dict.fromkeys(ErrorCode, RegistryCode.STORE_ERROR)),),
    ),
    "shows a group that was claimed for a join that was refused": Planted(
        "POST /v1/groups/{group}/members",
        (
            (
                "log_format.groups.state.Group.exists",
                property(lambda self: self.row is not None or bool(self.offsets)),
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    seeds, code = range(PLANTED_SEEDS_MAX), Code(planted=planted.targets)
    assert seed_that_shows(seeds, lambda seed: simulate_calls(seed, route=planted.route, code=code)) is not None


def test_a_call_that_looks_again_after_its_commit_fails_each_time() -> None:
    """The seams need no failing store: a route that asks for anything behind its commit never works."""
    code = Code(planted=(("gateway.groups.offsets.committed.CommittedOffsets.put", _lists_afresh),))
    with pytest.raises(Violation, match="INTERNAL"):
        simulate_calls(1, route="PUT /v1/groups/{group}/offsets", code=code)
