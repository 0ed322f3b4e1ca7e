"""Loads of one client that has one record under way."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.client import told
from benchmarks.harness.load import run_load
from benchmarks.pace.done import Done, done
from benchmarks.pace.places import Counted, Place
from tests.kafka_clients.tried.programs import Failed, Missing, java, kept

FAST_STREAM_RECORDS: Final = 100
RARE_RECORDS_MIN: Final = 3
_HERE: Final = Path(__file__).parent
_MORE_SECONDS_MAX: Final = 90
"""How much longer than its load a client may run: its start, and its last answers."""


def http(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Send a record a request over one connection."""
    yield _http(place, load, seconds, 0.0)


def each_100_ms(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Send a record each 100 ms."""
    yield _http(place, load, seconds, 0.1)


def each_2_s(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Send a record each 2 s."""
    yield _http(place, load, max(seconds, 2.0 * RARE_RECORDS_MIN - 1.0), 2.0)


def _http(place: Place, load: str, seconds: float, pause: float) -> Done:
    if place.http is None:
        # A broker has no HTTP: beside it stands the client that waits for each answer, too.
        return _paced(place, load, _client("librdkafka", place.kafka, load, seconds, pause), seconds)
    place.make_topic(load)
    requests = json_requests(1, 100, topics=[load])
    run_load(place.http, requests, connections=1, seconds=0.01)
    counted = Counted()
    with place.counting(counted):
        answers = run_load(place.http, requests, connections=1, seconds=seconds, pause_s=pause)
    if answers.others:
        raise Failed(f"answers by status: {answers.statuses}")
    return done(load, answers.answers, answers.seconds, counted, answers.latencies_ms)


def sdk(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Call ``producer.send(...).result()`` in a loop."""
    client, address = ("librdkafka", place.kafka) if place.http is None else ("sdk", f"http://127.0.0.1:{place.http}")
    yield _paced(place, load, _client(client, address, load, seconds, 0.0), seconds)


def librdkafka(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Call ``produce()`` and ``flush()`` in a loop."""
    yield _paced(place, load, _client("librdkafka", place.kafka, load, seconds, 0.0), seconds)


def java_waits(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Call Java's ``send().get()`` in a loop."""
    yield _paced(place, load, java(str(_HERE / "Paced.java"), place.kafka, load, seconds), seconds)


def fast_stream(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Publish 100 records with FastStream one by one; the rate ends when its subscriber has handled the last."""
    del seconds
    python = kept() / "python"
    if not (python / "requirements.txt").exists():
        raise Missing("no FastStream: make kafka-clients gets it by pip")
    program = [str(python / "bin" / "python"), str(_HERE / "fast_stream.py")]
    yield _paced(place, load, [*program, place.kafka, load, str(FAST_STREAM_RECORDS)], 0.0)


def _client(name: str, address: str, topic: str, seconds: float, pause: float) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.pace.paced_client", name, address, topic]
    return [*command, str(seconds), str(pause)]


def _paced(place: Place, load: str, command: Sequence[str], seconds: float) -> Done:
    """Run a client on a new topic. Raises ``ClientFailed`` where it fails, or goes on for too long."""
    place.make_topic(load)
    counted = Counted()
    found = told(command, counting=place.counting(counted), seconds_max=seconds + _MORE_SECONDS_MAX)
    return done(load, len(found["latencies_ms"]), found["seconds"], counted, found["latencies_ms"])
