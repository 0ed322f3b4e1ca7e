"""Connect standalone with a file's source and sink, and MirrorMaker 2 from a real broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.kafka_clients.tried.programs import (
    ROOT,
    Failed,
    Missing,
    Running,
    expect,
    expect_in,
    java,
    kept,
    properties,
    run,
    tool,
    until,
)
from tests.support.server_process import free_port

_STRING = "org.apache.kafka.connect.storage.StringConverter"


def standalone(servers: str, directory: Path) -> None:
    """Lines of a file go to a topic and on to another file; stopped and started again, each line comes once."""
    if not (kept() / "plugins" / "file").exists():
        raise Missing("no Connect: make kafka-clients gets it by Maven")
    tool("TopicCommand", "--bootstrap-server", servers, "--create", "--topic", "connect.file", "--partitions", 1)
    source, sink = directory / "source.txt", directory / "sink.txt"
    source.touch()
    worker = properties(
        directory / "worker.properties",
        {
            "bootstrap.servers": servers,
            "key.converter": _STRING,
            "value.converter": _STRING,
            "offset.storage.file.filename": directory / "offsets",
            "offset.flush.interval.ms": 500,
            "plugin.path": kept() / "plugins",
            "listeners": f"http://127.0.0.1:{free_port()}",
            "consumer.override.auto.offset.reset": "earliest",
        },
    )
    kind = "org.apache.kafka.connect.file.FileStream"
    one = {"tasks.max": 1}
    reading = {"name": "in", "connector.class": f"{kind}SourceConnector", "file": source, "topic": "connect.file"}
    writing = {"name": "out", "connector.class": f"{kind}SinkConnector", "file": sink, "topics": "connect.file"}
    connectors = [
        properties(directory / "in.properties", one | reading),
        properties(directory / "out.properties", one | writing),
    ]
    command = java("org.apache.kafka.connect.cli.ConnectStandalone", worker, *connectors)
    wanted: list[str] = []
    for round_number in range(2):
        with Running(command, directory / "connect.log") as connect:
            lines = [f"{round_number} line {number}" for number in range(100)]
            wanted += lines
            with source.open("a") as file:
                file.write("".join(f"{line}\n" for line in lines))
            until(partial(_has_lines, sink, len(wanted)), "all lines", connect)
            time.sleep(2)  # offsets are flushed
    expect(sink.read_text().splitlines(), wanted, "lines")


def _has_lines(path: Path, count: int) -> bool:
    return path.exists() and len(path.read_text().splitlines()) >= count


def mirror(servers: str, directory: Path) -> None:
    """MirrorMaker 2 moves a topic of a real broker, its settings, and a group's offsets; the group goes on where it was."""
    with broker(directory) as source:
        mirrored(source, servers, directory)


def mirrored(source: str, servers: str, directory: Path, said: Callable[[str], None] = lambda _: None) -> None:
    """From one address to the other, while the group goes on at the source; ``said`` gets what happens. Raises ``Failed``."""
    at, there = ("--bootstrap-server", source), ("--bootstrap-server", servers)
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    tool("TopicCommand", *at, "--create", "--topic", "orders", "--partitions", 3, "--config", "retention.ms=86400000")
    lines = [f"{number}\torder {number}" for number in range(1500)]
    values = {line.partition("\t")[2] for line in lines}
    keyed = java(
        "org.apache.kafka.tools.ConsoleProducer", *at, "--topic", "orders", "--reader-property", "parse.key=true"
    )
    group = ("--topic", "orders", "--group", "billing")
    run(keyed, given="\n".join(lines[:1000]) + "\n")
    first = run(
        java(consumer, *at, *group, "--from-beginning", "--max-messages", 600, "--timeout-ms", 20000)
    ).splitlines()
    said(f"billing has read {len(first)} of 1000 records at the source")
    settings = directory / "mirror.properties"
    template = (ROOT / "examples" / "from-kafka" / "mirror.properties").read_text()
    settings.write_text(template.replace("SOURCE", source).replace("TARGET", servers))
    with Running(java("org.apache.kafka.connect.mirror.MirrorMaker", settings), directory / "mirror.log") as maker:
        until(lambda: _end(servers) == 1000, "the records so far", maker)
        expect_in("PartitionCount: 3", _described(servers))
        until(lambda: "retention.ms=86400000" in _described(servers), "settings", maker)
        said("the topic is there with its partitions, records and settings")
        run(keyed, given="\n".join(lines[1000:]) + "\n")
        until(lambda: _end(servers) == 1500, "records that came meanwhile", maker)
        # MirrorMaker translates offsets that are committed after it began: a group goes on at the source until it has caught up.
        more = run(java(consumer, *at, *group, "--max-messages", 800, "--timeout-ms", 20000)).splitlines()
        said(f"billing has read {len(more)} more at the source, while the mirror runs")
        until(lambda: _has_offsets(servers), "the group's offsets", maker)
        said("the group's offsets are there; it stops at the source")
    rest = run(java(consumer, *there, *group, "--timeout-ms", 15000), may_fail=True)
    got = [line for line in rest.splitlines() if line.startswith("order ")]
    seen = {*first, *more}
    missing = values - seen - set(got)
    # An offset is translated to one that is not beyond it: records may come twice, and none is left out.
    if missing or not got or len(got) >= len(lines):
        raise Failed(f"{len(missing)} records are missing, {len(got)} came")
    said(f"billing went on with {len(got)} records; none is missing, {len(seen & set(got))} came again")


def _described(servers: str) -> str:
    return tool("TopicCommand", "--bootstrap-server", servers, "--describe", "--topic", "orders")


def _end(servers: str) -> int:
    said = run(
        java("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", servers, "--topic", "orders"), may_fail=True
    )
    return sum(int(line.rpartition(":")[2]) for line in said.splitlines() if line.startswith("orders:"))


def _has_offsets(servers: str) -> bool:
    command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    described = run(java(command, "--bootstrap-server", servers, "--describe", "--group", "billing"), may_fail=True)
    rows = [line.split() for line in described.splitlines() if line.startswith("billing ")]
    return len(rows) == 3 and all(len(row) > 3 and row[3].isdigit() and row[3] != "0" for row in rows)


@contextlib.contextmanager
def broker(directory: Path, *, told: str = "127.0.0.1", settings: Mapping[str, object] | None = None) -> Iterator[str]:
    """The address of a broker of Apache Kafka, which runs until the block ends: by the name that it tells clients."""
    port = free_port()
    with _started_broker(directory, port, told, settings or {}) as running:
        until(lambda: "Kafka Server started" in running.log.read_text(), "the broker", running)
        yield f"{told}:{port}"


def _started_broker(directory: Path, port: int, told: str, more: Mapping[str, object]) -> Running:
    data = directory / "broker"
    settings = properties(
        directory / "server.properties",
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{(controller := free_port())}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{told}:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": data,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            **more,
        },
    )
    uuid = run(java("kafka.tools.StorageTool", "random-uuid")).split()[-1]
    run(java("kafka.tools.StorageTool", "format", "-t", uuid, "-c", settings))
    info = "-Dlog4j2.level=INFO"
    # The shipped scripts give a broker 1 GiB; some suites make thousands of topics.
    options = ("-Xmx1536m", "-Dlog4j2.configurationFile=" + str(_info_log(directory)), info)
    command = java("kafka.Kafka", settings, options=options)
    return Running(command, directory / "broker.log")


def _info_log(directory: Path) -> Path:
    path = directory / "log4j2-info.xml"
    path.write_text((Path(__file__).parents[1] / "log4j2.xml").read_text().replace('level="WARN"', 'level="INFO"'))
    return path
