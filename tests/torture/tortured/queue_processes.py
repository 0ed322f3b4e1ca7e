"""Worker processes of two queues on one topic: started, stopped and killed, and what their handlers noted (``queue_worker``)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.torture.tortured.checker import Checker
from tests.torture.tortured.clients import Client, produce, start
from tests.torture.tortured.final_log import by_http
from tests.torture.tortured.handler_history import Handling, Letter, Noted, contradictions
from tests.torture.tortured.history import History
from tests.torture.tortured.queue_worker import deed_of

TOPIC = "handled"
PARTITIONS = 2
LETTERS = "dead-handled"
QUEUES = {"handling": LETTERS, "dropping": None}
"""With a dead letter topic, and without."""
DELIVERIES_MAX = 4
LOCK_MS = 4_000
WORKERS = (0, 3)
"""Of each queue's processes: one iterates, one runs so many threads."""
SETTLE_SECONDS_MAX = 480.0
END_SECONDS_MAX = 60.0


class _Process:
    """One worker's place: when its process ends, another one takes it."""

    def __init__(self, queue: str, workers: int, urls: list[str], notes: Path) -> None:
        self.queue = queue
        self.begins_with = workers or 1
        """How many records count with a request for records, at most."""
        self.notes = notes
        self._log = notes.with_suffix(".log")
        self._command = [sys.executable, str(Path(__file__).with_name("queue_worker.py")), "--urls", ",".join(urls)]
        self._command += ["--queue", queue, "--notes", str(notes), "--workers", str(workers)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=dict(os.environ))

    def ended(self) -> int | None:
        """Its status, once it has ended."""
        return None if self._process is None else self._process.poll()

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait; the status. One that does not end is killed: -9."""
        assert self._process is not None
        self._process.send_signal(number)
        try:
            return self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class QueueProcesses:
    """``client``: its event ends the killing. Made once the gateways serve."""

    def __init__(self, client: Client, urls: list[str], directory: Path, failures: list[str]) -> None:
        self._client = client
        self._urls = urls
        self._failures = failures
        self._directory = directory
        self._processes = [
            _Process(queue, workers, urls, directory / f"{queue}-{workers}.notes")
            for queue in QUEUES
            for workers in WORKERS
        ]
        self._sent = History()
        self._settled: dict[str, dict[int, int]] = {}
        """By queue and partition: all below this offset is settled."""
        self.slack: Counter[str] = Counter()
        """By queue: how many records killed processes can have begun with unseen."""
        self.counts: Counter[str] = Counter()

    def start(self, sender: Client, pace_seconds: float) -> None:
        """Make topics and queues, send, work, and kill until the client is stopped. ``sender`` stops by its own event."""
        for name, count in ((TOPIC, PARTITIONS), (LETTERS, 1)):
            body = {"name": name, "partition_count": count, "config": {"flush.ms": 50}}
            reply, _, _ = self._client.insist("POST", "/v1/topics", body)
            assert reply.status in {200, 201}, reply
        for queue, letters in QUEUES.items():
            settings: dict[str, Any] = {"topics": [TOPIC], "start": "earliest", "lock_ms": LOCK_MS}
            settings |= {"max_deliveries": DELIVERIES_MAX, "backoff_ms": [0, 200]}
            settings |= {"dead_letter_topic": letters} if letters else {}
            reply, _, _ = self._client.insist("PUT", f"/v1/queues/{queue}", settings)
            assert reply.status in {200, 201}, reply
        sender.history = self._sent
        self._sending = start(produce, sender, {TOPIC: PARTITIONS}, pace_seconds, failures=self._failures)
        for process in self._processes:
            process.start()
        self._killing = start(lambda _client: self._kill(), self._client, failures=self._failures)

    def _kill(self) -> None:
        client = self._client
        while not client.stopping.wait(client.rng.uniform(0.2, 1.5)):
            for process in self._processes:
                self._revive(process)
            process = client.rng.choice(self._processes)
            number = client.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
            self._note(process, process.end(number))
            process.start()

    def _revive(self, process: _Process) -> None:
        status = process.ended()
        if status is not None:
            self._note(process, status)
            process.start()

    def _note(self, process: _Process, status: int) -> None:
        """How a process ended. One that was killed may just have begun with records. -15: it was told to stop as it started."""
        self.counts[f"{process.queue}: workers ended with {status}"] += 1
        if status == -signal.SIGKILL:
            self.slack[process.queue] += process.begins_with
        elif status not in (0, -signal.SIGTERM):
            self._failures.append(
                f"a worker of {process.queue} ended with {status}: {process.notes.with_suffix('.log')}"
            )

    def settled(self, seconds_max: float = SETTLE_SECONDS_MAX) -> list[str]:
        """Wait until both queues have nothing left, with processes that live on; then end them. Calm has to be."""
        self._killing.join(END_SECONDS_MAX)
        self._sending.join(SETTLE_SECONDS_MAX)
        deadline, rest = time.monotonic() + seconds_max, 0
        queues: list[Any] = []
        while time.monotonic() < deadline and rest < 3:
            for process in self._processes:
                self._revive(process)
            queues = [self._client.call("GET", f"/v1/queues/{queue}") for queue in QUEUES]
            is_done = all(
                one.status == 200 and not any(part["lag"] for part in one.body["partitions"]) for one in queues
            )
            rest = rest + 1 if is_done else 0
            time.sleep(0.5)
        for process in self._processes:
            self._note(process, process.end(signal.SIGTERM))
        for queue in QUEUES:
            reply, _, _ = self._client.insist("GET", f"/v1/queues/{queue}")
            self._settled[queue] = {part["partition"]: part["start_offset"] for part in reply.body["partitions"]}
        return [] if rest == 3 else [f"not everything was handled in {seconds_max:.0f} s: {queues}"]

    def judged(self, lost_answers_max: int) -> list[str]:
        """``lost_answers_max``: how often each process may have lost the answer to a request for records."""
        log = by_http(self._urls[0], {TOPIC: PARTITIONS})
        found = Checker(self._sent, log).contradictions()
        values = {(partition, offset): one for (_, partition), held in log.items() for offset, one in enumerate(held)}
        for queue, letters in QUEUES.items():
            handling = Handling(
                noted=self._noted(queue),
                log=values,
                settled=self._settled[queue],
                letters=letters_of(self._urls[0], letters) if letters else [],
                rejected=frozenset(value for value in values.values() if deed_of(value) == "reject"),
            )
            slack = self.slack[queue] + lost_answers_max * sum(
                one.begins_with for one in self._processes if one.queue == queue
            )
            found += [
                f"{queue}: {line}"
                for line in contradictions(
                    handling, deliveries_max=DELIVERIES_MAX, slack=slack, has_letters=letters is not None
                )
            ]
            self.counts.update(handling.counts(queue))
        return found

    def _noted(self, queue: str) -> list[Noted]:
        lines = [
            json.loads(line)
            for process in self._processes
            if process.queue == queue and process.notes.exists()
            for line in process.notes.read_text().splitlines()
        ]
        return [
            Noted(what=what, at=at, value=value, place=(partition, offset), count=count)
            for what, at, value, partition, offset, count in lines
        ]


def letters_of(url: str, topic: str) -> list[Letter]:
    """What a dead letter topic has."""
    client = Client("letters", [url], History(), threading.Event(), 0)
    found: list[Letter] = []
    offset = 0
    while True:
        path = f"/v1/topics/{topic}/partitions/0/records?offset={offset}&max_records=10000"
        reply, _, _ = client.insist("GET", path)
        for record in reply.body["records"]:
            headers = {one["key"]: one["value"] for one in record["headers"]}
            found.append(
                Letter(
                    value=record["value"],
                    place=(int(headers["tidelog-dlq-partition"]), int(headers["tidelog-dlq-offset"])),
                    deliveries=int(headers["tidelog-dlq-deliveries"]),
                    reason=headers["tidelog-dlq-reason"],
                )
            )
        offset = reply.body["next_offset"]
        if offset == reply.body["high_watermark"]:
            return found
