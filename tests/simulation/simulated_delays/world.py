"""One history of delayed records from one seed: whole gateways, clients that delay and cancel, and misfortune.

``simulate_delays(seed)`` returns what happened or raises ``Violation``:

1. A record whose scheduling was acknowledged is in the topic once; one that was refused never is. One in doubt is there at most
   once, and a stamped request that was repeated until it was answered exactly once.
2. No record is committed before its time, by the clock of a gateway.
3. A cancelled record never appears. One that could not be cancelled since it was delivered does.
4. Where the topic is deleted and made anew, what waited in the former one never appears in the new one.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from log_format import layout
from tests.simulation.simulated.faults import (
    CALM,
    CROWDED,
    FAULTY,
    HOSTILE,
    MINUTE_MS,
    SECOND_MS,
    STORMY,
    Faults,
    Profile,
)
from tests.simulation.simulated.scheduler import EPOCH_MS, Machine
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_service.gateways_world import GatewaysWorld, Over, Simulation, made_by
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import Service

RENEWED = replace(FAULTY, name="renewed", recreation=0.4)
"""The topic is deleted and made anew under its clients."""
PROFILES = {CALM: 1, FAULTY: 4, STORMY: 3, CROWDED: 3, HOSTILE: 2, RENEWED: 3}
TOPIC = "t"
PARTITIONS = 2
LATE_MS = 5 * MINUTE_MS
"""Behind the last fault, until when all that is late has come and all that is due is published."""
DELAYS_MS = (0, 50, 300, 1_000, 2_000, 5_000, 20_000)
CANCELLERS = 3
_NEVER_MS = 2**62
TRIES_MAX = 12
SKEW_MS_MAX = 300
"""How wrong a gateway's clock is at most: so much too early may a record be."""


@dataclass(slots=True)
class Sent:
    """What is known of one value. ``at_most``, ``at_least``: how often it is in the topic in the end."""

    at_least: int = 0
    at_most: int = 0
    scheduled_id: str | None = None
    tries: list[tuple[int, int]] = field(default_factory=list)
    """From when to when each try of its request was under way. It may be in no topic that was made later."""


class DelaysWorld(GatewaysWorld):
    """Two gateways that publish, and their clients."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, Faults(rng, profile))
        self.told = Counter()
        self.late_ms: list[int] = []
        """Of each delayed record, when it was committed."""
        self._sent: dict[str, Sent] = {}
        self._topic_id, self._made_ms = "", _NEVER_MS
        """The topic that is there, and when it was made."""

    def begin(self) -> None:
        """Start gateways and actors."""
        self.services += [self.start_service() for _ in range(2)]
        self.actor("creator", self._create)

    def start_service(self) -> Service:
        """One more gateway."""
        self._started += 1
        machine = Machine(f"gateway-{self._started}", wall_skew_ms=self.rng.randrange(-SKEW_MS_MAX, SKEW_MS_MAX))
        return self.service(self.client(machine), machine, with_publishing=True)

    def _create(self) -> None:
        self._make()
        for index in range(2):
            self.actor(f"plain-{index}", partial(self._turns, self._plain))
        for index in range(2):
            self.actor(f"stamped-{index}", self._stamped)
        for index in range(CANCELLERS):
            self.actor(f"canceller-{index}", partial(self._turns, partial(self._cancel, index), 3))
        self.actor("misfortune", partial(self.misfortune, self.profile.turns))
        if self.profile.recreation:
            self.actor("renewer", partial(self.renew, 2 * self.profile.turns, lambda: TOPIC, lambda _: self._make()))

    def _make(self) -> None:
        body = {"name": TOPIC, "partition_count": PARTITIONS, "config": {"flush.ms": self.rng.choice((0, 100))}}
        while not self._is_done(reply := self._call("POST", "/v1/topics", body)):
            if isinstance(reply, Reply) and reply.error_code == "TOPIC_ALREADY_EXISTS":
                return
            self.scheduler.sleep_ms(500)

    def _turns(self, turn: Callable[[], None], times: int = 1) -> None:
        for _ in range(2 * times * self.profile.turns):
            turn()
            self.think()

    # What clients do

    def _records(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for _ in range(self.rng.randrange(1, 4)):
            value = f"value-{len(self._sent)}"
            self._sent[value] = Sent()
            record: dict[str, Any] = {"value": value, "partition": self.rng.randrange(PARTITIONS)}
            delay_ms = self.rng.choice(DELAYS_MS)
            if self.rng.random() < 0.5:
                record["deliver_after_ms"] = delay_ms
            else:
                record["deliver_at"] = EPOCH_MS + self.scheduler.now_ms + delay_ms
            records.append(record)
        return records

    def _plain(self) -> None:
        records = self._records()
        reply = self._ask(records)
        if isinstance(reply, Reply) and reply.status == 200:
            self._acknowledged(records, reply)
        elif isinstance(reply, Lost) or reply.may_have_happened:
            self.told["in doubt"] += 1
            self._may_be_there(records)
        else:
            self.told["refused"] += 1

    def _stamped(self) -> None:
        """Each request again until it is answered; an outcome that stays unknown ends it."""
        identity = None
        while identity is None:
            reply = self._call("POST", "/v1/producers", {})
            identity = reply.body if self._is_done(reply) and isinstance(reply, Reply) else None
        for sequence in range(self.profile.turns):
            records = self._records()
            headers = {
                "Tidelog-Producer-Id": identity["producer_id"],
                "Tidelog-Producer-Epoch": "0",
                "Tidelog-Producer-Sequence": str(sequence),
            }
            self._may_be_there(records)
            for attempt in range(TRIES_MAX):
                reply = self._ask(records, headers)
                if isinstance(reply, Reply) and reply.status == 200:
                    self.told["repeated"] += attempt > 0
                    self.told["duplicate"] += reply.body["duplicate"]
                    self._acknowledged(records, reply)
                    break
                self.scheduler.sleep_ms(self.rng.randrange(1, 3 * SECOND_MS))
            else:
                return
            self.think()

    def _ask(self, records: list[dict[str, Any]], headers: dict[str, str] | None = None) -> Reply | Lost:
        """Send them once, for the topic that there is then."""
        began_ms = self.scheduler.now_ms
        reply = self._call("POST", f"/v1/topics/{TOPIC}/records", {"records": records}, headers)
        # A gateway that stands still may do it yet.
        is_over = isinstance(reply, Reply) and not reply.may_have_happened
        until_ms = self.scheduler.now_ms if is_over else _NEVER_MS
        for record in records:
            self._sent[record["value"]].tries.append((began_ms, until_ms))
        return reply

    def _cancel(self, index: int) -> None:
        """Something that was scheduled lately. No two cancel the same, so what one is told is about its own try."""
        mine = list(self._sent.values())[index::CANCELLERS]
        waiting = [sent for sent in mine if sent.scheduled_id is not None]
        if not waiting:
            return
        sent = self.rng.choice(waiting[-6:])
        reply = self._call("DELETE", f"/v1/topics/{TOPIC}/scheduled/{sent.scheduled_id}")
        if isinstance(reply, Reply) and reply.status == 204:
            self.told["cancelled"] += 1
            sent.at_least = sent.at_most = 0
        elif isinstance(reply, Reply) and reply.status == 409:
            self.told["delivered before"] += 1
            if sent.at_least == 0:
                raise Violation(f"{sent.scheduled_id} was cancelled or lost, and is said to be delivered")
        elif isinstance(reply, Lost) or (reply.status >= 400 and reply.may_have_happened):
            sent.at_least = 0
            sent.scheduled_id = None
        elif reply.status == 404 and sent.at_most == 1 and sent.at_least == 1 and self._is_of_present(sent):
            raise Violation(f"{sent.scheduled_id} waits or is delivered, and is said to be unknown")

    def _acknowledged(self, records: list[dict[str, Any]], reply: Reply) -> None:
        self.told["acknowledged"] += 1
        for record in records:
            sent = self._sent[record["value"]]
            sent.at_least = sent.at_most = 1
        for place in reply.body.get("scheduled", ()):
            self.told["scheduled"] += 1
            self._sent[records[place["index"]]["value"]].scheduled_id = place["id"]
        count = sum(each["count"] for each in reply.body["partitions"])
        if not reply.body["duplicate"] and count + len(reply.body.get("scheduled", ())) != len(records):
            raise Violation(f"{len(records)} records were sent, and the answer is {reply.body}")

    def _is_of_present(self, sent: Sent) -> bool:
        """Whether what was acknowledged last is surely in the topic that is there."""
        return sent.tries[-1][0] >= self._made_ms

    def _may_be_there(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            self._sent[record["value"]].at_most = 1

    def _call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply | Lost:
        return self.network.call(self.rng.choice(self.services), method, path, body, headers)

    def _is_done(self, reply: Reply | Lost) -> bool:
        return isinstance(reply, Reply) and reply.status < 300

    # What is true

    def written(self, key: str, data: bytes) -> None:
        """No commit has a delayed record before its time."""
        if layout.commit_version(key) is None or not key.startswith(layout.topic_root(TOPIC)):
            return
        if (made := made_by(data)) is not None and made.is_deleted:
            self._topic_id, self._made_ms = "", _NEVER_MS
        elif made is not None and made.topic_id != self._topic_id:
            self._topic_id, self._made_ms = made.topic_id, self.scheduler.now_ms
        for line in data.splitlines():
            added = json.loads(line).get("add")
            if added is None:
                continue
            table = pq.read_table(io.BytesIO(self.server.objects.get(layout.topic_root(TOPIC) + added["path"])))
            for value, headers in zip(
                table.column("value").to_pylist(), table.column("headers").to_pylist(), strict=True
            ):
                for header in headers or ():
                    if header["key"] != "tidelog-scheduled-for":
                        continue
                    self.late_ms.append(EPOCH_MS + self.scheduler.now_ms - int(header["value"]))
                    if self.late_ms[-1] < -SKEW_MS_MAX:
                        raise Violation(f"{value!r} was published before {header['value']!r}")

    def at_rest(self) -> None:
        """All that is due is published; then what clients were told is compared with what there is."""
        self.scheduler.sleep_ms(LATE_MS)
        if self.profile.recreation:
            self._make()
        found: Counter[str] = Counter()
        for partition in range(PARTITIONS):
            path = f"/v1/topics/{TOPIC}/partitions/{partition}/records?offset=earliest&max_records=10000"
            reply = self._call("GET", path)
            if not isinstance(reply, Reply) or reply.status != 200:
                raise Violation(f"nothing fails any more, and a read was answered {reply}")
            found.update(record["value"] for record in reply.body["records"])
        for value, sent in self._sent.items():
            least = sent.at_least if sent.at_least and self._is_of_present(sent) else 0
            most = sent.at_most if any(until_ms >= self._made_ms for _, until_ms in sent.tries) else 0
            if not least <= found[value] <= most:
                raise Violation(f"{value} is there {found[value]} times, not {least} to {most}")
        waiting = self._call("GET", f"/v1/topics/{TOPIC}/scheduled")
        self.told["left over"] += len(waiting.body["scheduled"]) if isinstance(waiting, Reply) else 0

        def over() -> None:
            raise Over

        self.scheduler.at(0, over)


simulate_delays = Simulation(DelaysWorld, PROFILES)
