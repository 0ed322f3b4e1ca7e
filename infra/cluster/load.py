"""Send and read records until SIGTERM, and report every second: ``load.py URL CA_FILE TOKEN_FILE``.

One line of JSON a second: ``second`` (since the epoch), ``sent``, ``received``, ``asked``, ``worst`` (seconds, of an
acknowledgement, of a record's delivery to the reader, of a plain request), ``failed`` (failures reported by the SDK),
``refused`` (failed plain requests, each by a new connection and never retried: what a client without retries sees) and
``problems``. The last line is ``{"acknowledged", "received", "lost", "twice"}``, after the reader had up to a minute for
acknowledged records.
"""
# ruff: noqa: INP001, T201 - a program of its own

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import urllib3

from tidelog import Admin, Consumer, TidelogError

sys.path.append(str(Path(__file__).resolve().parents[1] / "docker"))
from traffic import send_until

TOPIC: Final = "load"
PARTITIONS: Final = 4
SENDERS: Final = 4
PAUSE_SECONDS: Final = 0.05
READ_SECONDS_MAX: Final = 60


class Load:
    """Observations, second by second; thread-safe."""

    def __init__(self, url: str, ca_file: str, token_file: str) -> None:
        self._url, self._ca_file = url, ca_file
        self._token = Path(token_file).read_text().strip()
        self._connection: dict[str, Any] = {"ca_file": ca_file, "token_file": token_file}
        self._lock = threading.Lock()
        self._seconds: dict[int, dict[str, Any]] = {}
        self.ended = threading.Event()
        self.read_ended = threading.Event()
        self.acknowledged: set[str] = set()
        self.received: Counter[str] = Counter()

    def create(self) -> None:
        """Create the topic."""
        with Admin(self._url, **self._connection) as admin:
            admin.create_topic(TOPIC, PARTITIONS)

    def send(self, sender: int) -> None:
        """Send one record after another."""
        send_until(
            self.ended, self._url, TOPIC, self._sent, sender=sender, pause_seconds=PAUSE_SECONDS, **self._connection
        )

    def _sent(self, name: str, seconds: float, failure: TidelogError | None) -> None:
        if failure is None:
            self.acknowledged.add(name)
            self._note("sent", seconds)
        else:
            self._note("failed", seconds, f"send: {failure!r}")

    def read(self) -> None:
        """Read all records as they come."""
        with Consumer(TOPIC, bootstrap_servers=self._url, auto_offset_reset="earliest", **self._connection) as consumer:
            while not self.read_ended.is_set():
                began = time.time()
                try:
                    records = consumer.poll(timeout_ms=1000)
                except TidelogError as problem:
                    self._note("failed", time.time() - began, f"poll: {problem!r}")
                    continue
                for record in records:
                    name, sent = json.loads(record.value)
                    self.received[name] += 1
                    self._note("received", time.time() - sent)

    def ask(self) -> None:
        """Send plain requests, like a client that opens a connection for each and never retries."""
        while not self.ended.is_set():
            began = time.time()
            try:
                with urllib3.PoolManager(retries=False, ca_certs=self._ca_file, timeout=urllib3.Timeout(10)) as pool:
                    headers = {"authorization": f"Bearer {self._token}", "connection": "close"}
                    status = pool.request("GET", f"{self._url}/v1/topics/{TOPIC}", headers=headers).status
                if status == 200:
                    self._note("asked", time.time() - began)
                else:
                    self._note("refused", time.time() - began, f"{status}")
            except urllib3.exceptions.HTTPError as problem:
                self._note("refused", time.time() - began, type(problem).__name__)
            self.ended.wait(2 * PAUSE_SECONDS)

    def tell(self, *, last: bool = False) -> None:
        """Print the completed seconds."""
        with self._lock:
            over = sorted(second for second in self._seconds if last or second < int(time.time()) - 1)
            lines = [{"second": second, **self._seconds.pop(second)} for second in over]
        for line in lines:
            print(json.dumps(line), flush=True)

    def _note(self, what: str, seconds: float, problem: str | None = None) -> None:
        with self._lock:
            line = self._seconds.setdefault(int(time.time()), {"worst": {}, "problems": []})
            line[what] = line.get(what, 0) + 1
            line["worst"][what] = round(max(seconds, line["worst"].get(what, 0)), 3)
            if problem is not None:
                line["problems"].append(problem[:200])


def main(url: str, ca_file: str, token_file: str) -> None:
    """Run until SIGTERM."""
    load = Load(url, ca_file, token_file)
    signal.signal(signal.SIGTERM, lambda *_: load.ended.set())
    load.create()
    senders = [threading.Thread(target=load.send, args=(sender,)) for sender in range(SENDERS)]
    asker, reader = threading.Thread(target=load.ask), threading.Thread(target=load.read)
    for thread in (*senders, asker, reader):
        thread.start()
    while not load.ended.wait(1):
        load.tell()
    for thread in (*senders, asker):
        thread.join()
    deadline = time.time() + READ_SECONDS_MAX
    while load.acknowledged - load.received.keys() and time.time() < deadline:
        load.ended.wait(0)
        time.sleep(0.2)
    load.read_ended.set()
    reader.join()
    load.tell(last=True)
    found = {
        "acknowledged": len(load.acknowledged),
        "received": len(load.received),
        "lost": len(load.acknowledged - load.received.keys()),
        "twice": sum(count - 1 for count in load.received.values()),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
