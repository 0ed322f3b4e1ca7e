"""Clients of Confluent's registry, and values of their serializers in records.

Of a gateway it is its own registry, and topics are typed; of a broker it is Apicurio's, which keeps its schemas there.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.kafka_clients.tried.programs import (
    HERE,
    ROOT,
    SECONDS,
    Failed,
    Missing,
    expect,
    expect_in,
    java,
    kept,
    run,
    tool,
)
from tests.kafka_clients.tried.python_programs import python_program
from tests.kafka_clients.tried.registries import SCHEMAS, registry
from tests.support.registry import Registry

_DONE: Final = "all is as it should be"
_RECORDS: Final = 2_000
_SCHEMAS: Final = 300
GATEWAYS: Final[dict[str, str]] = {}
"""The registry's URL by the bootstrap servers of a gateway."""


@contextlib.contextmanager
def registry_of(servers: str, directory: Path) -> Iterator[str]:
    """The URL of the gateway's registry, or of one beside that keeps its schemas in the broker."""
    if servers in GATEWAYS:
        yield GATEWAYS[servers]
        return
    with registry(servers, directory, 1) as made:
        yield made.address + SCHEMAS


def _through(servers: str, directory: Path, topic: str, command: Sequence[str]) -> str:
    """Run a program with the registry and a topic; of a gateway the topic becomes typed, and refuses another value then."""
    typed = ("typed",) if servers in GATEWAYS else ()
    with registry_of(servers, directory) as url:
        at = ("--bootstrap-server", servers)
        tool("TopicCommand", *at, "--create", "--topic", topic, "--partitions", 2)
        said = run([*command, servers, url, topic, str(_RECORDS), *typed], seconds=2 * SECONDS)
    expect_in(_DONE, said)
    if typed:
        producer = java("org.apache.kafka.tools.ConsoleProducer", *at, "--topic", topic)
        expect_in("InvalidRecordException", run(producer, given="no such value\n", may_fail=True))
    return ""


def flink_avro(servers: str, directory: Path) -> str:
    """Flink's avro-confluent, and Confluent's client for Java: its calls, refusals; a sink and a source of a typed topic."""
    here = kept() / "flink"
    if not (here / "java.complete").exists():
        raise Missing("no Flink: make kafka-clients gets it by Maven")
    opened = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")]
    command = java("Typed", options=("-Xmx512m", *opened), jars=f"{here}/libs/*:{here}/classes")
    return _through(servers, directory, "typed.flink", command)


def confluent_java(servers: str, directory: Path) -> None:
    """Confluent's serializers for Java, Avro and Protobuf: two versions, refusals, the newest version; through a typed topic."""
    converters = kept() / "plugins-confluent" / "converters"
    if not converters.exists():
        raise Missing("no serializers: make kafka-clients gets them by Maven")
    jars = f"{kept()}/libs/*:{converters}/*:{kept()}/classes"
    for kind in ("avro", "protobuf"):
        (directory / kind).mkdir()
        topic = f"typed.java.{kind}"
        _through(servers, directory / kind, topic, java("Serializers", kind, jars=jars))
        if servers in GATEWAYS:
            asked = f'select sum(data.amount), count(data.note), sum(data.more) from "{topic}"'
            wanted = [sum(range(_RECORDS)) / 2, _RECORDS // 2, 7 * _RECORDS // 2]
            expect(columns(GATEWAYS[servers], asked), [wanted], f"columns of {topic}")


def columns(registry_url: str, asked: str) -> list[list[Any]]:
    """The rows that a gateway answers to a statement."""
    url = registry_url.removesuffix("/registry") + "/v1/sql"
    given = json.dumps({"sql": asked}).encode()
    request = urllib.request.Request(url, given, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        rows: list[list[Any]] = json.load(answer)["rows"]
    return rows


def franz_registry(servers: str, directory: Path) -> str:
    """franz-go's sr: its calls, refusals; values of its Serde through a typed topic."""
    program = kept() / "registry"
    if not program.exists():
        raise Missing("no franz-go: make kafka-clients builds it")
    return _through(servers, directory, "typed.franz", [str(program)])


def javascript(servers: str, directory: Path) -> None:
    """@kafkajs/confluent-schema-registry, @confluentinc/schemaregistry: calls, refusals; Avro, JSON and Protobuf in records."""
    modules = kept() / "javascript" / "node_modules"
    if not (modules / "@confluentinc").exists():
        raise Missing("no clients of registries: make kafka-clients gets them by npm")
    script = os.fspath(HERE / "javascript" / "registries.js")
    with registry_of(servers, directory) as url:
        expect_in(_DONE, run(["env", f"NODE_PATH={modules}", "node", script, servers, url, "typed.js"]))


def python_client(servers: str, directory: Path) -> None:
    """python-schema-registry-client: its calls; Avro and JSON in records."""
    with registry_of(servers, directory) as url:
        expect_in(_DONE, run(python_program("registry_client", servers, url, "typed.python")))


def quix(servers: str, directory: Path) -> None:
    """Quix Streams with Avro and the registry: from one topic to another, schemas registered on the way."""
    with registry_of(servers, directory) as url:
        expect_in(_DONE, run(python_program("quix_typed", servers, url, "typed.quix")))


def imported(servers: str, directory: Path) -> str:
    """tidelog schema import: all that a registry beside has, with its ids; a second time nothing."""
    if servers not in GATEWAYS:
        raise Missing("it imports into a gateway")
    with registry(servers, directory, 1) as other:
        source, target = Registry(other.address + SCHEMAS), Registry(GATEWAYS[servers])
        # Ids of another registry are not free where schemas have been registered before: they begin above.
        for number in range(_SCHEMAS):
            fields = [{"name": f"field_{number}", "type": "string"}]
            text = json.dumps({"type": "record", "name": f"Imported{number}", "fields": fields})
            source.register(f"imported-{number}", text)
        ids = {
            name: source.call("GET", f"/subjects/{name}/versions/1")["id"]
            for name in source.call("GET", "/subjects")
            if name.startswith("imported-")
        }
        options = ("--url", GATEWAYS[servers].removesuffix("/registry"), "--prefix", "imported-", "--json")
        command = [sys.executable, "-m", "tidelog", "schema", "import", other.address + SCHEMAS, *options]
        told = [json.loads(run(["env", f"PYTHONPATH={ROOT}", *command], may_fail=True)) for _ in range(2)]
        free = {name for name in ids if name not in {one["subject"] for one in told[0]["failed"]}}
        for one in told[0]["failed"]:
            if "is not permitted" not in one["reason"]:
                raise Failed(str(one))
        expect(told[1]["imported"], 0, "versions that are imported again")
        expect(
            {name: target.call("GET", f"/subjects/{name}/versions/1")["id"] for name in free},
            {name: ids[name] for name in free},
            "ids",
        )
        return f"{told[0]['imported']} of {len(ids)} versions"
