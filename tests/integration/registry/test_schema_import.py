"""``tidelog schema import``: another registry is taken over with its ids, its deletions and its settings, once."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.support.command_runs import Run, runner
from tests.support.gateway_process import running_gateway
from tests.support.registry import Registry, record
from tidelog.cli.terminal.exit_code import ExitCode


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Registry]:
    """Another registry, which is empty."""
    with running_gateway(tmp_path / "other", tmp_path / "other.log") as gateway:
        made = Registry(f"{gateway.url}/registry")
        yield made
        made.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Registry]:
    """The registry into which is imported."""
    with running_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        made = Registry(f"{gateway.url}/registry")
        yield made
        made.close()


@pytest.fixture
def run(target: Registry) -> Run:
    """Runs commands against the target's gateway."""
    return runner(str(target.http.base_url).removesuffix("/registry/"))


def _filled(other: Registry) -> None:
    """Two types, references within and across subjects, a deleted version, a deleted subject, a context, settings."""
    other.call("PUT", "/config", {"compatibility": "FORWARD"})
    other.call("PUT", "/config/b-money", {"compatibility": "NONE", "normalize": True})
    money = other.register("b-money", record("Money", amount="long"))
    other.register("b-money", record("Money", amount="double"))
    reference = {"name": "Money", "subject": "b-money", "version": 2}
    other.register("a-order", record("Order", price="Money"), references=[reference])
    other.register("c", '{"type":"object"}', schemaType="JSON", metadata={"properties": {"owner": "x"}})
    other.register("gone", '"int"')
    other.register(":.ctx:d", '"int"')
    other.call("PUT", "/config/:.ctx:", {"compatibility": "FULL"})
    other.call("DELETE", "/subjects/b-money/versions/1")
    other.call("DELETE", "/subjects/gone")
    assert other.call("GET", f"/schemas/ids/{money}")


def _all(registry: Registry) -> dict[str, Any]:
    """Everything that the API shows of subjects and settings."""
    live = registry.call("GET", "/subjects")
    subjects = registry.call("GET", "/subjects", deleted="true")
    return {
        "live": {one: registry.call("GET", f"/subjects/{one}/versions") for one in live},
        "versions": {
            f"{one}/{version}": registry.call("GET", f"/subjects/{one}/versions/{version}", deleted="true")
            for one in subjects
            for version in registry.call("GET", f"/subjects/{one}/versions", deleted="true")
        },
        "settings": {
            path: registry.asked("GET", path).json()
            for path in (
                "/config",
                "/mode",
                "/config/:.ctx:",
                *(f"/{kind}/{one}" for one in subjects for kind in ("config", "mode")),
            )
        },
    }


def test_a_registry_is_taken_over(run: Run, other: Registry, target: Registry) -> None:
    """Ids, numbers, types, references, metadata, deletions, contexts, compatibility; a second run finds nothing to do; what comes
    later gets ids above."""
    _filled(other)
    done = run("schema", "import", other.http.base_url, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"subjects": 5, "versions": 6, "imported": 6, "known": 0, "failed": []}
    assert _all(target) == _all(other)
    again = json.loads(run("schema", "import", other.http.base_url, "--json").stdout)
    assert (again["imported"], again["known"]) == (0, 6)
    assert _all(target) == _all(other)
    ids = {one["id"] for one in _all(other)["versions"].values()}
    assert target.register("later", '"bytes"') > max(ids)
    said = run("schema", "import", other.http.base_url)
    assert "6 versions of 5 subjects: 0 were imported, 6 were here, 0 are missing." in said.stderr


def test_what_can_not_be_imported_is_told_and_the_rest_is(run: Run, other: Registry, target: Registry) -> None:
    """An id that another schema has, a version that is another; exit code 1. Nothing that was there changes."""
    taken = target.register("mine", record("Mine", a="int"))
    target.register("b", record("Other", x="int"))
    first = other.register("a", record("A", a="int"))
    assert first == taken
    other.register("b", record("B", a="int"))
    other.register("c", record("C", a="int"))
    done = run("schema", "import", other.http.base_url, "--json")
    assert done.exit_code == ExitCode.FAILED
    report = json.loads(done.stdout)
    assert (report["imported"], report["known"]) == (1, 0)
    assert {one["subject"]: one["reason"] for one in report["failed"]} == {
        "a": "Overwrite new schema with id 1 is not permitted.",
        "b": "the version is another schema here",
    }
    said = run("schema", "import", other.http.base_url)
    assert said.exit_code == ExitCode.FAILED
    assert "a, version 1, id 1: Overwrite" in said.stderr
    assert target.call("GET", "/subjects/c/versions/1")["id"] == 3
    assert json.loads(target.call("GET", "/subjects/b/versions/1")["schema"])["name"] == "Other"
    assert target.call("GET", "/mode") == {"mode": "READWRITE"}
    for subject in ("a", "b", "c"):
        target.refused(40409, "GET", f"/mode/{subject}")


def test_a_run_that_was_killed_is_continued(run: Run, other: Registry, target: Registry) -> None:
    """It left a subject in mode IMPORT, with some of its versions: the next run completes it, and takes the mode away."""
    _filled(other)
    target.call("PUT", "/mode/b-money", {"mode": "IMPORT"})
    first = other.call("GET", "/subjects/b-money/versions/1", deleted="true")
    target.register("b-money", first["schema"], id=first["id"], version=1)
    done = json.loads(run("schema", "import", other.http.base_url, "--json").stdout)
    assert (done["imported"], done["known"], done["failed"]) == (5, 1, [])
    assert _all(target) == _all(other)


def test_a_prefix_and_an_own_mode(run: Run, other: Registry, target: Registry) -> None:
    """Only the subjects with the prefix come, and no setting of all; a subject's own mode is what it was."""
    _filled(other)
    target.call("PUT", "/mode/c", {"mode": "READWRITE"})
    done = json.loads(run("schema", "import", other.http.base_url, "--prefix", "c", "--json").stdout)
    assert (done["subjects"], done["imported"]) == (1, 1)
    assert target.call("GET", "/subjects", deleted="true") == ["c"]
    assert target.call("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert target.call("GET", "/mode/c") == {"mode": "READWRITE"}


@pytest.mark.parametrize(("status", "said"), [(200, "is no schema registry"), (401, "answers 401")])
def test_what_is_no_registry(run: Run, tmp_path: Path, status: int, said: str) -> None:
    """It is told what it answers; the credentials were sent."""
    asked: list[str | None] = []

    class _Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Say no."""
            asked.append(self.headers["authorization"])
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    secret = tmp_path / "secret"
    secret.write_text("me:pass\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        done = run("schema", "import", f"http://127.0.0.1:{server.server_port}", "--credentials-file", secret)
        server.shutdown()
    assert done.exit_code == ExitCode.FAILED
    assert said in done.stderr
    assert asked == ["Basic " + b64encode(b"me:pass").decode()]
