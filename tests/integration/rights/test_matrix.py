"""Each operation of each door with exactly the rights that it needs in effect, and with each of them missing in turn."""

from __future__ import annotations

from contextlib import closing

import pytest
from kio.schema.index import api_key_map

from gateway.app import ROUTERS
from gateway.kafka.calls.table import CALLS
from gateway.routes import operations
from gateway.routes.typed_route import TypedRoute
from tests.support.rights import http_rows, iceberg_rows, kafka_rows, registry_rows, sharing_rows
from tests.support.rights.row import Row
from tests.support.rights.world import DENIED, JOURNALS, NAMES, LiveGateway, Right, World

ROWS = (*http_rows.ROWS, *registry_rows.ROWS, *iceberg_rows.ROWS, *sharing_rows.ROWS, *kafka_rows.ROWS)


def test_each_operation_has_a_row_and_each_row_an_operation() -> None:
    """The operations are those of both listeners' routers, and the requests that Kafka's listener serves."""
    doors = {"": ROUTERS, "operators ": (operations.probes, operations.operators)}
    routes = {
        f"{door}{method} {route.path_format}"
        for door, routers in doors.items()
        for router in routers
        for route in router.routes
        if isinstance(route, TypedRoute)
        for method in route.methods or ()
    }
    requests = {f"kafka {api_key_map[key]}" for key in CALLS}
    assert {row.operation for row in ROWS} == routes | requests


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_each_right_is_needed_and_no_other(world: World, row: Row) -> None:
    """Without one the call is refused for that one, or does not show what needs it, and the store is as it was. With exactly
    these it is done. What it then writes or shows is of nothing that needs another right."""
    _tried(world, row)


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_of_records], ids=str)
def test_at_a_journal_the_same_rights_are_needed(live: LiveGateway, row: Row) -> None:
    """The same of what reads, writes or deletes records, where these lie with those of other topics."""
    with closing(World(live, "shared")) as world:
        _tried(world, row)


def _tried(world: World, row: Row) -> None:
    asked: list[Right] = [*row.rights, *(right for right, _ in row.shows)]
    hidden = {right: world.filled(shown) for right, shown in row.shows}
    for missing in asked:
        if row.prepare is not None:
            row.prepare(world)
        world.grant(right for right in asked if right != missing)
        before = world.objects() if row.prepare is None else world.at_rest()
        answer = row.call(world)
        if missing in hidden:
            assert not answer.refusals, (missing, answer)
            assert world.filled(hidden[missing]) not in answer.text, missing
            continue
        refusals = {world.filled(missing), DENIED[missing[1]], row.unknown or missing}
        assert refusals & {*answer.refusals, *answer.failures}, (missing, answer)
        assert not _changed(before, world.objects()), missing
        assert not _secrets(world, answer.text) - _readable(world, row, missing), (missing, answer.text)
    if row.prepare is not None:
        row.prepare(world)
    world.grant(asked)
    before = world.at_rest()
    answer = row.call(world)
    assert not answer.refusals, answer
    assert row.may_fail or not answer.failures, answer
    for shown in hidden.values():
        assert world.filled(shown) in answer.text, (shown, answer.text)
    written = _changed(before, world.objects())
    others = {name for name in NAMES if not any(world.names[name] in world.filled(one[2]) for one in asked)}
    for name in others.difference(row.gives_back):
        assert not any(_is_of(world, world.names[name], key, data) for key, data in written.items()), name
    assert _secrets(world, answer.text) <= _readable(world, row, None), answer.text


def _changed(before: dict[str, bytes], after: dict[str, bytes]) -> dict[str, bytes]:
    """What was written, and what is gone, as it was."""
    return {key: data for key, data in (before | after).items() if before.get(key) != after.get(key)}


def _is_of(world: World, name: str, key: str, data: bytes) -> bool:
    """Whether an object is a topic's of this name, or a row of the group or transactional id. A queue's row names its topics."""
    if name in world.ids:
        is_at_journal = key.startswith(JOURNALS) and world.ids[name].encode() in data
        return key.startswith(f"topics/{name}/") or is_at_journal
    return name in f"{key}{data!r}"


def _secrets(world: World, text: str) -> set[str]:
    """The topics of whose records something is there."""
    return {world.names[name] for name in ("topic", "other") if f"secret-{name}" in text}


def _readable(world: World, row: Row, missing: Right | None) -> set[str]:
    """The topics that the caller may read."""
    given = [*row.rights, *(right for right, _ in row.shows)]
    return {world.filled(one[2]) for one in given if one != missing and one[:2] == ("Read", "topic")}
