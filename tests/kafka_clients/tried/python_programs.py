"""Programs on Python's frameworks for Kafka: FastStream, Quix Streams, Faust, kombu, Celery, Bytewax."""

from __future__ import annotations

import json
import shutil
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from tests.kafka_clients.python import topics
from tests.kafka_clients.tried.programs import ROOT, Missing, Running, expect, expect_in, kept, run, until

_DONE = "all is as it should be"
_KEYS = 7


def python_program(program: str, *arguments: object) -> list[str]:
    """The command of a program in tests/kafka_clients/python, with the libraries that the script has fetched."""
    venv = kept() / "python"
    if not (venv / "requirements.txt").exists():
        raise Missing("no Python libraries: make kafka-clients gets them by pip")
    python = str(venv / "bin" / "python")
    return ["env", f"PYTHONPATH={ROOT}", python, "-m", f"tests.kafka_clients.python.{program}", *map(str, arguments)]


def faststream(servers: str, directory: Path) -> None:
    """FastStream on aiokafka: groups that stop and go on, manual acknowledgement, again what failed, batches."""
    del directory
    expect_in(_DONE, run(python_program("fast_stream", servers, "faststream.aiokafka", "aiokafka")))


def faststream_confluent(servers: str, directory: Path) -> None:
    """FastStream on confluent-kafka: groups that stop and go on, manual acknowledgement, again what failed, batches."""
    del directory
    expect_in(_DONE, run(python_program("fast_stream", servers, "faststream.confluent", "confluent")))


def _records(start: int, end: int) -> list[tuple[str, str]]:
    return [(f"key {number % _KEYS}", f"value {number}") for number in range(start, end)]


def quix(servers: str, directory: Path) -> None:
    """Quix Streams: counts and windows, at-least-once; stopped, its state lost, and started again."""
    _quix(servers, directory, "at-least-once", kill=False)


def quix_exactly_once(servers: str, directory: Path) -> None:
    """Quix Streams: counts and windows, exactly-once; killed midway, its state lost, and started again."""
    _quix(servers, directory, "exactly-once", kill=True)


def _quix(servers: str, directory: Path, guarantee: str, *, kill: bool) -> None:
    prefix = f"quix.{guarantee}"
    given, counts, windows = (f"{prefix}.{name}" for name in ("in", "counts", "windows"))
    topics.create(servers, given, counts, windows)
    topics.produce(servers, given, _records(0, 100))
    command = python_program("quix", servers, prefix, directory / "state", guarantee)
    log = directory / "quix.log"

    def come(topic: str, count: int) -> bool:
        return len(topics.read(servers, topic)) >= count

    with Running(command, log) as first:
        until(lambda: come(counts, 20 if kill else 100), "counts", first)
        first.stop(kill=kill)
    shutil.rmtree(directory / "state")
    topics.produce(servers, given, _records(100, 150))
    with Running(command, log) as second:
        until(lambda: come(counts, 150) and come(windows, 150), "counts after the stop", second)
    rows = [(key, json.loads(value)) for key, value in topics.read(servers, counts)]
    wanted = [(key, value, 1 + number // _KEYS) for number, (key, value) in enumerate(_records(0, 150))]
    expect(sorted((key, row["value"], row["count"]) for key, row in rows), sorted(wanted), "counts")
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key, value in topics.read(servers, windows):
        row = json.loads(value)
        numbers[key, row["start"]].append(row["value"])
    for found in numbers.values():
        expect(sorted(found), [*range(1, 1 + len(found))], "counts of a window")
    expect(sum(map(len, numbers.values())), 150, "records in windows")


def faust(servers: str, directory: Path) -> None:
    """Faust: an agent with a table, at-least-once; stopped, and started again with its state from the changelog."""
    _faust(servers, directory, "at_least_once", kill=False)


def faust_exactly_once(servers: str, directory: Path) -> None:
    """Faust: an agent with a table, exactly-once; killed, and started again with its state from the changelog."""
    _faust(servers, directory, "exactly_once", kill=True)


def _faust(servers: str, directory: Path, guarantee: str, *, kill: bool) -> None:
    """The changelog is judged: Faust writes it in its transactions, and what an agent sends outside of them.

    Records come while no run is starting: Faust leaves out, or counts twice, some of those that wait for it then, on Apache
    Kafka, too. It lets its streams go on before it has sought to the committed offsets.
    """
    prefix = f"faust.{guarantee}"
    given, changelog = f"{prefix}.in", f"{prefix}.faust-counts-changelog"
    topics.create(servers, given)
    command = python_program("faust_table", servers, prefix, directory / "state", guarantee)
    log = directory / "faust.log"

    def counted(run_number: int, start: int, end: int) -> None:
        with Running(command, log) as program:
            until(lambda: log.read_text().count("Worker ready") == run_number, "the worker", program)
            topics.produce(servers, given, _records(start, end))
            until(lambda: len(topics.read(servers, changelog)) >= end, "counts", program)
            time.sleep(3)  # offsets are committed each second
            program.stop(kill=kill)

    counted(1, 0, 100)
    shutil.rmtree(directory / "state")
    counted(2, 100, 150)
    wanted = [(f'"{key}"', str(1 + number // _KEYS)) for number, (key, _) in enumerate(_records(0, 150))]
    expect(sorted(topics.read(servers, changelog)), sorted(wanted), "changelog")


def kombu(servers: str, directory: Path) -> None:
    """kombu: a queue by its confluentkafka: put, get, acknowledge, reject, requeue; a connection that ends and another."""
    del directory
    expect_in(_DONE, run(python_program("kombu_queue", servers, "kombu")))


def celery(servers: str, directory: Path) -> None:
    """Celery: tasks by kombu's confluentkafka; a worker that is stopped, and another that goes on."""
    done, log = directory / "done", directory / "celery.log"
    done.touch()
    for start, end in ((0, 30), (30, 45)):
        run(python_program("celery_tasks", servers, "celery", "send", start, end))
        with Running(python_program("celery_tasks", servers, "celery", "work", done), log) as worker:
            until(partial(_has_lines, done, end), "all tasks", worker)
            time.sleep(3)  # none comes twice
    expect(sorted(map(int, done.read_text().split())), [*range(45)], "tasks")


def bytewax(servers: str, directory: Path) -> None:
    """Bytewax: records are numbered by key; a second run goes on where the first one ended."""
    if not list(kept().glob("python/lib/*/site-packages/bytewax")):
        raise Missing("Bytewax has no wheel for this Python")
    given, taken = "bytewax.in", "bytewax.counts"
    topics.create(servers, given, taken)
    for start, end in ((0, 100), (100, 150)):
        topics.produce(servers, given, _records(start, end))
        run(python_program("bytewax_flow", servers, "bytewax", directory / "recovery"))
    rows = [(key, json.loads(value)) for key, value in topics.read(servers, taken)]
    wanted = [(key, value, 1 + number // _KEYS) for number, (key, value) in enumerate(_records(0, 150))]
    expect(sorted((key, row["value"], row["count"]) for key, row in rows), sorted(wanted), "counts")


def _has_lines(path: Path, count: int) -> bool:
    return len(path.read_text().splitlines()) >= count
