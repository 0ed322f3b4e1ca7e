"""The registry of one gateway: what it asks of the store, what it answers while the store is away, and its bounds."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace

import pytest

from gateway.schemas.parsed_schemas import ParsedSchemas
from gateway.schemas.schema_registry import CLAIMED_MS_MIN, Registration
from gateway.system_tables.schemas import LOOK_PAUSE_S
from log_format import layout
from log_format.errors import BackOff, RequestRefused, StoreUnavailable
from log_format.schemas.changes import (
    CLAIMS_MAX,
    VERSIONS_MAX,
    ClaimColumns,
    PutConfig,
    PutMode,
    Register,
    ReleaseColumns,
    compared,
)
from log_format.schemas.copied import CopiedAt
from log_format.schemas.decision import Decided
from log_format.schemas.deletions import DeleteSubject
from log_format.schemas.refusals import RegistryRefused
from log_format.schemas.row import ConfigRow, ModeRow, SchemaRow, SchemasChanges, VersionRow
from log_format.schemas.schema import Schema, SchemaReference, SchemaType
from log_format.schemas.state import SchemasState
from log_format.stores.memory import MemoryStore
from tests.support.clocks import LaterClock
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import FaultyStore, nothing
from tests.support.registry import record

INT = Registration(subject="a", schema=Schema(text='"int"'), normalize=False)


def _down(_operation: str, key: str) -> None:
    raise StoreUnavailable(key, "down", may_have_happened=False)


async def _drained(*gateways: Gateway) -> None:
    for one in gateways:
        await one.engine.drain()


async def test_a_gateway_that_is_not_asked_makes_no_request_for_schemas() -> None:
    """Nor does one that was asked, while it is not asked again."""
    gateway = make_gateway()
    await gateway.engine.start()

    def requests() -> int:
        return sum(key.startswith(layout.SCHEMAS_ROOT) for _, key in gateway.store.requests)

    await asyncio.sleep(0.1)
    assert requests() == 0
    await gateway.engine.schemas.register(INT)
    made = requests()
    await asyncio.sleep(0.3)
    assert requests() == made > 0
    await _drained(gateway)


async def test_a_flood_of_what_is_not_there_costs_few_looks() -> None:
    """Clients that ask for unknown ids and schemas, or register what is not compatible, as fast as they are refused: four looks a
    second. What another gateway registered before the call is found."""
    gateway = make_gateway()
    registry = gateway.engine.schemas
    await registry.register(INT)
    text = Registration(subject="a", schema=Schema(text='"string"'), normalize=False)
    before, began = len(gateway.store.requests), time.monotonic()

    async def ask() -> None:
        while time.monotonic() - began < 4 * LOOK_PAUSE_S:
            assert (await registry.found(lambda state: state.schema(99, "")))[1] is None
            assert (await registry.looked_up(text, deleted=False))[1] is None
            with pytest.raises(RegistryRefused):
                await registry.register(text)

    await asyncio.gather(*(ask() for _ in range(8)))
    looks = (time.monotonic() - began) / LOOK_PAUSE_S + 2
    assert len(gateway.store.requests) - before <= 2 * looks
    other = make_gateway(objects=gateway.store.objects)
    made = await other.engine.schemas.register(replace(INT, subject="b", schema=Schema(text='"long"')))
    assert (await registry.found(lambda state: state.schema(made.id, "")))[1] is not None
    await _drained(gateway, other)


async def test_a_known_schema_that_another_gateway_deleted_is_registered_again() -> None:
    """Though this gateway knew it a moment ago: whoever gets an id finds it."""
    gateway = make_gateway()
    other = make_gateway(objects=gateway.store.objects)
    first = await gateway.engine.schemas.register(INT)
    for permanent in (False, True):
        await other.engine.schemas.decide(DeleteSubject(subject="a", permanent=permanent))
    again = await gateway.engine.schemas.register(INT)
    assert again.id != first.id
    assert (await other.engine.schemas.state()).schema(again.id, "") == INT.schema
    await _drained(gateway, other)


async def test_reads_that_come_together_share_a_look() -> None:
    """A hundred reads of the latest version are no hundred requests."""
    gateway = make_gateway()
    await gateway.engine.schemas.register(INT)
    before = len(gateway.store.requests)
    states = await asyncio.gather(*(gateway.engine.schemas.state() for _ in range(100)))
    assert all(state.latest("a") is not None for state in states)
    assert len(gateway.store.requests) - before <= 10
    await _drained(gateway)


async def test_while_the_store_is_away_reads_go_on_and_registrations_do_not() -> None:
    """By what is known; a gateway that knows nothing says so."""
    objects = MemoryStore()
    gateway, stranger = make_gateway(objects=objects), make_gateway(objects=objects)
    registered = await gateway.engine.schemas.register(INT)
    gateway.store.before = stranger.store.before = _down
    state = await gateway.engine.schemas.state()
    assert state.schema(registered.id) == INT.schema
    assert (await gateway.engine.schemas.register(INT)).id == registered.id, "it is known already"
    with pytest.raises(BackOff):
        await gateway.engine.schemas.register(replace(INT, schema=Schema(text='"long"')))
    with pytest.raises(BackOff):
        await gateway.engine.schemas.found(lambda state: state.schema(77))
    with pytest.raises(BackOff):
        await stranger.engine.schemas.state()
    gateway.store.before = stranger.store.before = nothing
    assert (await stranger.engine.schemas.state()).schema(registered.id) == INT.schema
    await _drained(gateway, stranger)


async def test_what_another_gateway_registers_meanwhile_is_compared_too() -> None:
    """The schema was compatible with what this gateway knew: it is refused after it was compared again."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    await one.engine.schemas.state()
    await other.engine.schemas.register(replace(INT, schema=Schema(text='"string"')))
    with pytest.raises(RegistryRefused) as refused:
        await one.engine.schemas.register(INT)
    assert int(refused.value.registry_code) == 409
    assert (await one.engine.schemas.state()).numbers("a")[0].id == 1
    await _drained(one, other)


async def test_a_copied_store_skips_ids_once() -> None:
    """What the other store has given since is not given here."""
    objects = MemoryStore()
    first = make_gateway(objects=objects)
    assert (await first.engine.schemas.register(INT)).id == 1
    objects.put(layout.COPIED, CopiedAt(at_ms=1_000).encoded())
    restored = make_gateway(objects=objects)
    texts = ('"long"', '"double"')
    ids = [(await restored.engine.schemas.register(replace(INT, schema=Schema(text=text)))).id for text in texts]
    assert ids == [1_000_002, 1_000_003]
    await _drained(first, restored)


async def test_registrations_beyond_the_budget_are_refused_and_deletions_never() -> None:
    """Bytes are counted; the refusal says what to do."""
    gateway = make_gateway(FaultyStore(), schemas_bytes_max=4_000)

    async def fill() -> None:
        for number in range(10):
            schema = Schema(text=f'{{"type":"fixed","name":"F","size":{number + 1}}}')
            await gateway.engine.schemas.register(Registration(subject=f"s{number}", schema=schema, normalize=False))

    with pytest.raises(BackOff, match="schemas_bytes_max"):
        await fill()
    assert len((await gateway.engine.schemas.state()).schemas) < 5
    await _drained(gateway)


def test_a_subject_has_a_bounded_number_of_versions() -> None:
    """Deleted ones included, since they can be asked for."""
    rows = tuple(VersionRow(subject="a", version=one + 1, id=1, is_deleted=True) for one in range(VERSIONS_MAX))
    schema = SchemaRow(id=1, context="", type=SchemaType.AVRO, text='"int"')
    state = SchemasState().after((SchemasChanges(schemas=(schema,), versions=rows),))
    asked = Register(subject="a", schema=Schema(text='"long"'), compared=compared(state, "a"))
    refused = asked.decide(state, 0)
    assert isinstance(refused, RegistryRefused)
    assert int(refused.registry_code) == 42205


def test_parsed_schemas_are_kept_within_a_budget() -> None:
    """The least recently used go first, and what is larger than all of it is not kept."""
    parsed = ParsedSchemas(kept_bytes_max=1_000)
    schemas = [Schema(text=f'{{"type":"fixed","name":"F{number}","size":1}}') for number in range(20)]
    kept = parsed.parsed(schemas[0], ())
    for schema in schemas[1:]:
        parsed.parsed(schema, ())
        assert parsed.parsed(schemas[0], ()) is kept, "it is used all the time"
        assert parsed.kept_bytes <= 1_000
    large = Schema(text='{"type":"fixed","name":"F","size":1,"doc":"' + "x" * 2_000 + '"}')
    assert parsed.parsed(large, ()) is not parsed.parsed(large, ())
    with pytest.raises(RegistryRefused) as refused:
        parsed.parsed(Schema(text="{"), ())
    assert int(refused.value.registry_code) == 42201


WRONG_DEFAULT = json.dumps(
    {"type": "record", "name": "Old", "fields": [{"name": "a", "type": "int", "default": "none"}]}
)
"""A schema that registries took once, and that is refused today."""


async def test_what_is_imported_or_stored_is_not_refused_by_the_checks_of_today() -> None:
    """An import keeps it, a client that sends it again gets its id, a newer version is compared with it; a new one is refused."""
    gateway = make_gateway()
    schemas = gateway.engine.schemas
    old = Registration(subject="a", schema=Schema(text=WRONG_DEFAULT), normalize=False)
    with pytest.raises(RegistryRefused, match="is no value of its type"):
        await schemas.register(old)
    await schemas.decide(PutMode(row=ModeRow(subject="a", mode="IMPORT")))
    imported = await schemas.register(replace(old, schema_id=1_000, version=1))
    assert (imported.id, imported.version) == (1_000, 1)
    await schemas.decide(PutMode(row=ModeRow(subject="a", mode="READWRITE")))
    assert await schemas.register(old) == imported
    _, found = await schemas.looked_up(old, deleted=False)
    assert found is not None
    assert found.schema_id == 1_000
    newer = replace(old, schema=Schema(text=record("Old", a="long")))
    assert await schemas.compared_with(newer, None) == []
    assert (await schemas.register(newer)).version == 2
    uses = Schema(text=record("Uses", old="Old"), references=(SchemaReference(name="Old", subject="a", version=1),))
    assert (await schemas.register(Registration(subject="uses", schema=uses, normalize=False))).version == 1
    with pytest.raises(RegistryRefused):
        await schemas.register(replace(old, subject="b"))
    await _drained(gateway)


ORDER = record("Order", id="long")
OTHER = record("Order", id="string")


async def refused(gateway: Gateway, text: str) -> bool:
    """Whether a version of subject ``t-value`` is refused, since a topic has columns of it."""
    wanted = Registration(subject="t-value", schema=Schema(text=text), normalize=False)
    try:
        await gateway.engine.schemas.register(wanted)
    except RegistryRefused as error:
        return "A topic has columns" in error.detail
    return False


async def test_a_subject_is_free_again_when_no_topic_has_it() -> None:
    """Its columns bind it while one of two topics has it, and for a time after a claim: the topic may be about to be created."""
    clock = LaterClock()
    gateway = make_gateway(clock=clock)
    await gateway.engine.schemas.decide(PutConfig(row=ConfigRow(subject="t-value", compatibility="NONE")))
    assert not await refused(gateway, ORDER)
    await gateway.topic("one", value_schema="t-value")
    await gateway.topic("two", value_schema="t-value")
    clock.ahead_ms = CLAIMED_MS_MIN + 1_000
    assert await refused(gateway, OTHER)
    await gateway.engine.administration.delete("one")
    assert await refused(gateway, OTHER)
    await gateway.engine.administration.alter("two", None, {"value.schema": None})
    await gateway.topic("three", value_schema="t-value")
    await gateway.engine.administration.delete("three")
    assert await refused(gateway, OTHER), "the last claim is younger"
    clock.ahead_ms = 3 * CLAIMED_MS_MIN
    assert not await refused(gateway, OTHER)
    row = (await gateway.engine.schemas.state()).configs["t-value"]
    assert (row.compatibility, row.has_columns, row.claims) == ("NONE", False, ())
    await _drained(gateway)


async def test_a_creation_that_failed_binds_no_subject() -> None:
    """The topic exists with other settings."""
    clock = LaterClock()
    gateway = make_gateway(clock=clock)
    await gateway.engine.schemas.decide(PutConfig(row=ConfigRow(subject="t-value", compatibility="NONE")))
    assert not await refused(gateway, ORDER)
    await gateway.topic("one")
    with pytest.raises(RequestRefused):
        await gateway.topic("one", value_schema="t-value")
    assert await refused(gateway, OTHER)
    clock.ahead_ms = CLAIMED_MS_MIN + 1_000
    assert not await refused(gateway, OTHER)
    await _drained(gateway)


def changed(decision: ClaimColumns | ReleaseColumns, state: SchemasState, now_ms: int) -> SchemasChanges:
    """What the decision changes."""
    decided = decision.decide(state, now_ms)
    assert isinstance(decided, Decided)
    return decided.changes


def test_a_note_of_many_topics_names_none() -> None:
    """So it is never dropped; and one that was renewed meanwhile is not dropped either."""
    state = SchemasState()
    for number in range(CLAIMS_MAX + 1):
        before = state
        state = state.after([changed(ClaimColumns(subject="a", topic=f"t{number}"), state, number)])
    assert (before.configs["a"].has_columns, len(before.configs["a"].claims)) == (True, CLAIMS_MAX)
    assert (state.configs["a"].has_columns, state.configs["a"].claims) == (True, ())
    assert not changed(ReleaseColumns(subject="a", claims=()), state, 0)
    assert not changed(ClaimColumns(subject="a", topic="t"), state, 0)
    claims = before.configs["a"].claims
    renewed = before.after([changed(ClaimColumns(subject="a", topic="t0"), before, 1_000)])
    assert not changed(ReleaseColumns(subject="a", claims=claims), renewed, 0)
    released = before.after([changed(ReleaseColumns(subject="a", claims=claims), before, 0)])
    assert "a" not in released.configs
