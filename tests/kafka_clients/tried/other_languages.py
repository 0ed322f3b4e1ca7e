"""Clients in JavaScript, Go and Rust."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kafka_clients.tried.programs import HERE, Missing, expect_in, kept, run

_DONE = "all is as it should be"


def kafkajs(servers: str, directory: Path) -> None:
    """kafkajs: administration, five codecs, a group that stops and goes on, offsets set and reset, transactions."""
    _node_program("kafkajs", servers, directory)


def platformatic(servers: str, directory: Path) -> None:
    """@platformatic/kafka: administration, four codecs, groups of both protocols that stop and go on, transactions."""
    _node_program("platformatic", servers, directory)


def _node_program(name: str, servers: str, directory: Path) -> None:
    del directory
    modules = kept() / "javascript" / "node_modules"
    if not modules.exists():
        raise Missing(f"no {name}: make kafka-clients gets it by npm")
    script = HERE / "javascript" / f"{name}.js"
    expect_in(_DONE, run(["env", f"NODE_PATH={modules}", "node", os.fspath(script), servers, name]))


def sarama(servers: str, directory: Path) -> None:
    """sarama: administration, five codecs, a group that stops and goes on, transactions, records deleted."""
    _built_program("sarama", servers, directory)


def segmentio(servers: str, directory: Path) -> None:
    """kafka-go: administration, five codecs, a group that stops and goes on, records by offset."""
    _built_program("segmentio", servers, directory)


def rskafka(servers: str, directory: Path) -> None:
    """rskafka: topics, five codecs, records from any offset and by time, records deleted."""
    _built_program("rskafka", servers, directory)


def _built_program(name: str, servers: str, directory: Path) -> None:
    del directory
    program = kept() / name
    if not program.exists():
        raise Missing(f"no {program.name}: make kafka-clients builds it")
    expect_in(_DONE, run([str(program), servers, name]))
