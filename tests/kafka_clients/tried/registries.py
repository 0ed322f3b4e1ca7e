"""Apicurio Registry, which keeps its schemas in a topic (kafkasql)."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.kafka_clients.tried.programs import Failed, Missing, Running, expect, kept, until
from tests.support.server_process import free_port

_SUBJECTS: Final = 20
SCHEMAS: Final = "/apis/ccompat/v7"
"""Where Apicurio answers as Confluent's registry."""


def apicurio(servers: str, directory: Path) -> str:
    """Schemas and their rules by one registry, read by another; both killed, a third one has all."""
    with registry(servers, directory, 1) as one, registry(servers, directory, 2) as other:
        started = time.monotonic()
        for number in range(_SUBJECTS):
            one.done(f"/subjects/orders-{number}/versions", {"schema": schema("id", f"field_{number}")})
        seconds = time.monotonic() - started
        one.done("/config/orders-0", {"compatibility": "BACKWARD"}, method="PUT")
        longer = [*json.loads(schema("id", "field_0"))["fields"], {"name": "note", "type": "string", "default": ""}]
        one.done("/subjects/orders-0/versions", {"schema": _record(longer)})
        refused = one.answer("/subjects/orders-0/versions", {"schema": schema("id", "without_default")})
        expect(refused[0], 409, "the code of an incompatible schema")
        wanted = one.all()
        expect(len(wanted), _SUBJECTS + 1, "versions at the registry that took them")
        until(lambda: other.all() == wanted, "the same at the other registry", other.running)
        one.running.stop(kill=True)
        other.running.stop(kill=True)
    with registry(servers, directory, 3) as third:
        until(lambda: third.all() == wanted, "the same behind a kill", third.running)
        third.done("/subjects/late/versions", {"schema": schema("id")})
        expect(third.all().get("late 1"), schema("id"), "a schema that came behind the kill")
    return f"{_SUBJECTS / seconds:.1f} schemas/s, one after the other"


def schema(*names: str) -> str:
    """A record of strings."""
    return _record([{"name": name, "type": "string"} for name in names])


def _record(fields: list[dict[str, str]]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


class Registry:
    """One that runs."""

    def __init__(self, port: int, running: Running) -> None:
        self.running = running
        self.address = f"http://127.0.0.1:{port}"

    def is_up(self) -> bool:
        """Whether it has read its topic."""
        return self._asked(self.address + "/health/ready")[0] == 200

    def answer(self, path: str, given: object = None, method: str | None = None) -> tuple[int, object]:
        """Status and answer; the status is 0 where there is none."""
        return self._asked(self.address + SCHEMAS + path, given, method)

    def done(self, path: str, given: object = None, method: str | None = None) -> object:
        """The answer. Raises ``Failed`` where the request is refused."""
        status, told = self.answer(path, given, method)
        if status != 200:
            raise Failed(f"{path}: {status} {told}")
        return told

    def all(self) -> dict[str, object]:
        """Schemas by subject and version."""
        found = {}
        subjects = self.done("/subjects")
        assert isinstance(subjects, list)
        for subject in subjects:
            versions = self.done(f"/subjects/{subject}/versions")
            assert isinstance(versions, list)
            for version in versions:
                told = self.done(f"/subjects/{subject}/versions/{version}")
                assert isinstance(told, dict)
                found[f"{subject} {version}"] = told["schema"]
        return found

    def _asked(self, url: str, given: object = None, method: str | None = None) -> tuple[int, object]:
        body = None if given is None else json.dumps(given).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as problem:
            return problem.code, problem.read()[:300]
        except OSError:
            return 0, None


@contextlib.contextmanager
def registry(servers: str, directory: Path, number: int) -> Iterator[Registry]:
    """One that has read its topic, and ends with the block."""
    program = next((kept() / "apicurio").glob("*-runner.jar"), None)
    if program is None:
        raise Missing("no Apicurio Registry: make kafka-clients gets it by Maven")
    given = {
        "apicurio.storage.kind": "kafkasql",
        "apicurio.kafkasql.bootstrap.servers": servers,
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": (port := free_port()),
    }
    settings = [f"-D{name}={value}" for name, value in given.items()]
    home = directory / f"registry-{number}"
    home.mkdir()
    command = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", *settings, "-jar", str(program)]
    with Running(command, home / "log") as running:
        made = Registry(port, running)
        until(made.is_up, "the registry", running)
        yield made
