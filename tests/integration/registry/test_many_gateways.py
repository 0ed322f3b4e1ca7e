"""Several gateways on one store are one registry: no id twice, no schema with two ids, no pair of versions that do not fit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.gateway_process import GatewayProcess, running_gateways
from tests.support.registry import Registry, record

AT_ONCE = 12


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[GatewayProcess]]:
    """Three gateways on one directory."""
    folder = tmp_path_factory.mktemp("gateways")
    with running_gateways() as started:
        for number in range(3):
            started.append(GatewayProcess(folder / "store", folder / f"log{number}"))
        yield started


@pytest.fixture(scope="module")
def registries(gateways: list[GatewayProcess]) -> Iterator[list[Registry]]:
    """The registry of each."""
    made = [Registry(f"{one.url}/registry") for one in gateways]
    yield made
    for one in made:
        one.close()


def _at_once(call: Callable[[int], Any]) -> list[Any]:
    """What the call returns for each number, all of them begun together."""
    barrier = threading.Barrier(AT_ONCE)

    def begin(number: int) -> Any:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(begin, range(AT_ONCE)))


def test_what_one_gateway_registered_is_known_to_all(registries: list[Registry]) -> None:
    """At once: whoever does not know it looks before it says that it is not there."""
    first, *others = registries
    for other in others:
        other.refused(40401, "GET", "/subjects/known/versions")
    for number in range(5):
        text = record("Known", **{f"f{number}": ("int", 0)})
        schema_id = first.register("known", text)
        for other in others:
            assert other.call("GET", f"/schemas/ids/{schema_id}")["schema"]
            assert other.call("GET", f"/subjects/known/versions/{number + 1}")["id"] == schema_id
            assert other.call("POST", "/subjects/known", {"schema": text})["id"] == schema_id
            assert other.register("known", text) == schema_id


def test_the_same_schema_at_once_has_one_id_and_one_version(registries: list[Registry]) -> None:
    """Whichever gateway is asked."""
    for round_number in range(5):
        text = record(f"Same{round_number}", a="int")
        name = f"same-{round_number}"

        def register(number: int, name: str = name, text: str = text) -> int:
            return registries[number % 3].register(name, text)

        ids = _at_once(register)
        assert len(set(ids)) == 1
        assert registries[0].call("GET", f"/subjects/same-{round_number}/versions") == [1]


def test_different_schemas_at_once_have_different_ids(registries: list[Registry]) -> None:
    """In subjects of their own, and as versions of one."""
    ids = _at_once(lambda number: registries[number % 3].register(f"own-{number}", record(f"Own{number}", a="int")))
    registries[0].call("PUT", "/config/shared", {"compatibility": "NONE"})
    ids += _at_once(lambda number: registries[number % 3].register("shared", record(f"Shared{number}", a="int")))
    assert len(set(ids)) == 2 * AT_ONCE
    versions = registries[1].call("GET", "/subjects/shared/versions")
    assert versions == list(range(1, AT_ONCE + 1))


def test_of_schemas_that_do_not_fit_each_other_one_gets_in(registries: list[Registry]) -> None:
    """Each was compatible with what its gateway knew; the commit sees that the subject has changed."""
    for round_number in range(5):
        name = f"rivals-{round_number}"

        def register(number: int, name: str = name) -> int:
            text = record("Rival", **{f"needed{number}": "int"})
            answer: httpx.Response = registries[number % 3].asked(
                "POST", f"/subjects/{name}/versions", {"schema": text}
            )
            return answer.status_code

        statuses = _at_once(register)
        assert sorted(statuses) == [200] + [409] * (AT_ONCE - 1)
        assert registries[0].call("GET", f"/subjects/{name}/versions") == [1]


def test_nothing_that_was_answered_is_lost_when_a_gateway_is_killed(tmp_path: Path) -> None:
    """And no id is given again by those that come after it."""
    given: dict[str, int] = {}
    with running_gateways() as started:
        for number in range(2):
            started.append(GatewayProcess(tmp_path / "store", tmp_path / f"log{number}"))
        victim, other = started
        stop = threading.Event()

        def register(worker: int) -> None:
            for number in range(10_000):
                if stop.is_set():
                    return
                name = f"w{worker}-{number}"
                url = (victim if worker % 2 else other).url
                try:
                    body = json.dumps({"schema": record(name.replace("-", "_"), a="int")})
                    answer = httpx.post(f"{url}/registry/subjects/{name}/versions", content=body, timeout=30)
                except httpx.HTTPError:
                    continue
                if answer.status_code == 200:
                    given[name] = answer.json()["id"]

        workers = [threading.Thread(target=register, args=(number,)) for number in range(4)]
        for one in workers:
            one.start()
        for _ in range(3):
            stop.wait(1.5)
            victim.kill()
            victim.start()
        stop.set()
        for one in workers:
            one.join()
        assert len(given) > 20
        assert len(set(given.values())) == len(given)
        registry = Registry(f"{victim.url}/registry")
        for name, schema_id in given.items():
            assert registry.call("GET", f"/subjects/{name}/versions/1")["id"] == schema_id
        listed = registry.call("GET", "/schemas", limit=1000)
        assert len({one["id"] for one in listed}) == len(listed)
        for name in list(given)[:5]:
            registry.call("DELETE", f"/subjects/{name}")
            registry.call("DELETE", f"/subjects/{name}", permanent="true")
        newest = max([*given.values(), *(one["id"] for one in listed)])
        registry.close()
    with running_gateways() as started:
        started.append(GatewayProcess(tmp_path / "store", tmp_path / "log2"))
        registry = Registry(f"{started[0].url}/registry")
        assert registry.register("later", record("Later", a="int")) > newest
        registry.close()
