"""One history of a topic that is used as a table, from one seed: gateways as they are, journals, maintenance, and misfortune.

Beside those who produce, plainly, numbered, in transactions and for later, and those who read on, the topic gets other
retentions of its log, its table, its files and its commits; versions are pinned, people erased, and the topic is cloned and made
anew. Programs of maintenance drain, merge, compact keys, archive, erase and delete; any of them may stand still or be killed, and
two may be at work.

``simulate_table(seed)`` returns what happened or raises ``Violation`` (``judge``). At the end, when nothing fails any more, each
gateway serves what there is, maintenance gets through, and no request to erase is left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from tests.simulation.simulated import faults
from tests.simulation.simulated.faults import HOUR_MS, MINUTE_MS, SECOND_MS, Profile
from tests.simulation.simulated.scheduler import Machine, MachineClock
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_service.gateways_world import Simulation
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import EVENTFUL, Service
from tests.simulation.simulated_table.judge import BOUND_MS, TOPIC, Accepted, Clone, TableJudge
from tests.simulation.simulated_table.table import Table
from tests.simulation.simulated_typed.values import KEYS, Sent
from tests.simulation.simulated_typed.world import LARGE, PARTITIONS, TypedWorld

CALM = replace(faults.CALM, slow=0.0)
FAULTY = replace(faults.FAULTY, turns=4)
LONG = replace(CALM, name="long", think_ms_max=15 * MINUTE_MS, turns=7)
"""Hours, in which the log is cleaned up, files are deleted and requests come to their end."""
DROWSY = replace(
    LONG, name="drowsy", fault=0.1, pause=0.4, pause_at_request=0.01, pause_ms_max=20 * MINUTE_MS, crash=0.3
)
"""The same with gateways and maintenance that sleep in the middle of everything, or are killed."""
RENEWED = replace(CALM, name="renewed", recreation=0.4)
PROFILES = {CALM: 1, FAULTY: 2, faults.STORMY: 1, LONG: 4, DROWSY: 4, RENEWED: 1}
CLONES_MAX = 3
READ_AT_ONCE = 5
DAYS = 3
"""Rounds of maintenance at the end, a day apart."""


class PlainValues:
    """Makes values, each once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.sent: dict[bytes, Sent] = {}

    def make(self, now_ms: int) -> Sent:
        """One more value."""
        sent = Sent(b"value-%d" % len(self.sent), None, began_ms=now_ms, key=self._rng.choice(KEYS))
        self.sent[sent.data] = sent
        return sent


class TableWorld(TypedWorld):
    """An untyped topic, its clients and its clones."""

    MAINTAINED: ClassVar[Sequence[str]] = ()
    COLLECTS: ClassVar[float] = 0.5
    judge: TableJudge  # type: ignore[assignment]
    values: PlainValues  # type: ignore[assignment]

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, profile)
        self.values = PlainValues(rng)
        clock = MachineClock(self.scheduler, Machine("judge"))
        since = self._upkeep_since_ms
        self.judge = TableJudge(self.server.objects, clock, lambda: self.scheduler.now_ms, upkeep_since_ms=since)
        self.judge.sent = self.values.sent
        self.server.on_deleted = self.judge.deleted
        self._pins = 0
        self._looks_due = False
        self._asked_ms: dict[bytes, int | None] = {}
        """Until when requests to erase by a key, or another name, were under way; None: for ever."""

    def written(self, key: str, data: bytes) -> None:
        """An object stands. A minute after an erasure somebody asks each gateway."""
        erased = len(self.judge.table.erased_ms)
        self.judge.written(key, data)
        if len(self.judge.table.erased_ms) > erased and not self._looks_due:
            self._looks_due = True
            self.scheduler.at(BOUND_MS + SECOND_MS, self._look)

    def _look(self) -> None:
        self._looks_due = False
        for service in self.services:
            for partition in range(PARTITIONS):
                ask = partial(self._ask, service, partition)
                self.scheduler.start(f"question to {service.machine.name}", self.outside, ask)

    def _ask(self, service: Service, partition: int) -> None:
        self._read(service, partition, 0)

    def start_service(self) -> Service:
        """One more gateway."""
        machine = self.next_machine()
        bounds = replace(self.rng.choice((EVENTFUL, EVENTFUL, LARGE)), copies_at_once=1)
        return self.service(self.client(machine), machine, with_publishing=True, bounds=bounds)

    def _create(self) -> None:
        self._make()
        for index in range(2):
            self.actor(f"plain-{index}", partial(self._turns, self._plain, 2))
        self.actor("numbered", self._numbered)
        self.actor("transactor", partial(self._turns, self._transaction))
        self.actor("administrator", partial(self._turns, self._alter))
        self.actor("pinner", partial(self._turns, self._pin, 2))
        self.actor("eraser", partial(self._turns, self._erase))
        self.actor("cloner", self._clone_some)
        self.actor("misfortune", partial(self.misfortune, 2 * self.profile.turns))
        if self.profile.recreation:
            self.actor("renewer", partial(self.renew, self.profile.turns, lambda: TOPIC, lambda _: self._make()))
        for index in range(2):
            self.scheduler.start(f"reader-{index}", self.outside, self._read_on)

    def delete(self, topic: str, query: str = "?delete_pins=true") -> None:
        """Delete the topic, with its pins."""
        self.judge.pinned.clear()
        super().delete(topic, query)

    # Settings

    def _make(self) -> None:
        config = self._retention() | {
            "flush.ms": self.rng.choice((0, 100)),
            "commit.mode": self.rng.choice(("own", "shared", "auto")),
            "drain.ms": self.rng.choice((1_000, 5_000)),
            "cleanup.policy": self.rng.choice(("delete", "delete", "compact", "compact,delete")),
            "erase.grace.ms": self.rng.choice((0, self.profile.think_ms_max)),
            "erase.keep": self.rng.choice(("key", "key", "nothing")),
        }
        body = {"name": TOPIC, "partition_count": PARTITIONS, "config": config}
        while True:
            reply = self._call("POST", "/v1/topics", body)
            if isinstance(reply, Reply) and (reply.status < 300 or reply.error_code == "TOPIC_ALREADY_EXISTS"):
                return
            self.think()

    def _retention(self) -> dict[str, Any]:
        turn_ms = self.profile.think_ms_max
        return {
            "retention.ms": self.rng.choice((turn_ms, 2 * turn_ms, 4 * turn_ms)),
            "table.retention.ms": self.rng.choice(("log", -1, -1, 3 * turn_ms, 6 * turn_ms)),
            "deleted.file.retention.ms": self.rng.choice((0, turn_ms, 4 * turn_ms)),
            "deleted.file.retention.count": self.rng.choice((-1, 0, 3)),
            "commit.retention.count": self.rng.choice((-1, 0, 5)),
        }

    def _alter(self) -> None:
        kind = self.rng.random()
        if kind < 0.5:
            config = self._retention()
        elif kind < 0.8:
            config = {"commit.mode": self.rng.choice(("own", "shared", "shared", "auto"))}
        elif kind < 0.9:
            config = {"erase.keep": self.rng.choice(("key", "nothing"))}
        else:
            config = {"cleanup.policy": self.rng.choice(("delete", "compact", "compact,delete"))}
        reply = self._call("PATCH", f"/v1/topics/{TOPIC}", {"config": config})
        self.told["altered"] += self._is_done(reply)

    # Pins, erasures and clones

    def _pin(self) -> None:
        pinned = self.judge.pinned
        if pinned and self.rng.random() < 0.3:
            name = self.rng.choice(sorted(pinned))
            del pinned[name]
            self.told["unpinned"] += self._is_done(self._call("DELETE", f"/v1/topics/{TOPIC}/pins/{name}"))
            return
        self._pins += 1
        name = f"p{self._pins}"
        body: dict[str, Any] = {"name": name}
        if self.rng.random() < 0.5:
            body["version"] = max(0, len(self.judge.table.versions) - self.rng.randrange(1, 12))
        ttl_ms = self.rng.choice((None, self.profile.think_ms_max, 4 * self.profile.think_ms_max))
        if ttl_ms is not None:
            body["ttl_ms"] = ttl_ms
        reply = self._call("POST", f"/v1/topics/{TOPIC}/pins", body)
        if isinstance(reply, Reply) and reply.status < 300:
            version = reply.body["version"]
            topic_id = self.judge.table.versions[version].topic_id
            pinned[name] = (version, reply.body["expires_at"], str(topic_id))
            self.told["pinned an older version" if "version" in body else "pinned"] += 1
        elif isinstance(reply, Reply):
            self.told[f"pin: {reply.error_code}"] += 1

    def _erase(self) -> None:
        keys = [key.decode() for key in self.rng.sample(KEYS, self.rng.choice((1, 1, 2)))]
        self._ask_to_erase({"keys": keys}, [key.encode() for key in keys])

    def _ask_to_erase(self, body: dict[str, Any], names: Sequence[bytes]) -> None:
        """Ask. ``names``: those of ``_names`` that the request means."""
        began_ms = self.scheduler.now_ms
        reply = self._call("POST", f"/v1/topics/{TOPIC}/erasures", body)
        ended_ms = self.scheduler.now_ms if isinstance(reply, Reply) else None
        self._asked_ms |= {name: ended_ms for name in names if self._asked_ms.get(name, 0) is not None}
        if isinstance(reply, Reply) and reply.status == 202:
            name = reply.body["erasure_id"]
            self.judge.accepted[name] = Accepted(self.judge.table.topic_of[name], began_ms)
            self.told["asked to erase"] += 1
        elif isinstance(reply, Reply):
            self.told[f"erase: {reply.error_code}"] += 1

    def _names(self, sent: Sent) -> Sequence[bytes]:
        """By what requests to erase may mean a value."""
        return (sent.key,)

    def _clone_some(self) -> None:
        for number in range(CLONES_MAX):
            for _ in range(1 + self.profile.turns // CLONES_MAX):
                self.think()
            self._clone(f"c{number}")

    def _clone(self, name: str) -> None:
        judge, body = self.judge, {"name": name, **self._version_to_clone()}
        judge.clones[name] = Clone(
            Table(self.server.objects, name, lambda: self.scheduler.now_ms, self._upkeep_since_ms),
            self.scheduler.now_ms,
        )
        for _ in range(3):
            reply = self._call("POST", f"/v1/topics/{TOPIC}:clone", body)
            if isinstance(reply, Reply) and reply.status == 201:
                judge.clone_told(name, reply.body["source_version"])
                return
            if isinstance(reply, Reply) and reply.status != 202:
                self.told[f"clone: {reply.error_code}"] += 1
                return
            self.think()

    def _version_to_clone(self) -> dict[str, Any]:
        kind = self.rng.random()
        if kind < 0.3 and self.judge.pinned:
            return {"pin": self.rng.choice(sorted(self.judge.pinned))}
        if kind < 0.5:
            return {"version": max(0, len(self.judge.table.versions) - self.rng.randrange(1, 8))}
        return {}

    # Readers

    def _read_on(self) -> None:
        """Read each partition from where the last answer ended; in a topic that was made anew from its beginning."""
        positions: dict[int, int] = {}
        topic_id: str | None = None
        while self.busy:
            self.think()
            for partition in range(PARTITIONS):
                body = self._read(self.rng.choice(self.services), partition, positions.get(partition, 0))
                if body is None:
                    continue
                if body["topic_id"] != topic_id:
                    positions.clear()
                    topic_id = body["topic_id"]
                else:
                    positions[partition] = body["next_offset"]

    def _read(self, service: Service, partition: int, offset: int) -> dict[str, Any] | None:
        """What is at an offset, or at the log start; None: there is no answer."""
        asked_ms = self.scheduler.now_ms
        path = f"/v1/topics/{TOPIC}/partitions/{partition}/records"
        for start in (offset, "earliest"):
            reply = self.network.call(service, "GET", f"{path}?offset={start}&max_records={READ_AT_ONCE}")
            if isinstance(reply, Lost):
                return None
            if reply.status == 200:
                body: dict[str, Any] = reply.body
                first = (
                    offset
                    if start == offset
                    else min([record["offset"] for record in body["records"]], default=body["next_offset"])
                )
                self.judge.fetched(partition, first, body, asked_ms)
                return body
            if reply.error_code != "OFFSET_OUT_OF_RANGE":
                return None
        return None

    def _read_whole(self, service: Service, partition: int) -> None:
        found: dict[int, bytes | None] = {}
        offset = self.judge.table.head.log_starts.get(partition, 0)
        while offset < self.judge.table.head.next_offsets.get(partition, 0):
            body = self._read(service, partition, offset)
            if body is None:
                raise Violation(f"nothing is wrong, and {service.machine.name} does not serve {offset} of {partition}")
            found |= {
                record["offset"]: None if record["value"] is None else record["value"].encode()
                for record in body["records"]
            }
            offset = body["next_offset"]
        self.judge.read_whole(partition, found)

    # The end

    def at_rest(self) -> None:
        """As in every world, when whoever stands still goes on. A request to erase cancels delayed records that wait, and none
        that was sent after its answer, whatever the clocks of gateways say."""
        for sent in self.values.sent.values():
            asked = [self._asked_ms.get(name, 0) for name in self._names(sent)]
            may_be_meant = any(asked_ms is None or sent.began_ms < asked_ms for asked_ms in asked)
            if sent.is_promised and not sent.is_staged and may_be_meant:
                sent.at_least = 0
        self.scheduler.sleep_ms(self.profile.pause_ms_max)
        super().at_rest()

    def _maintain_last(self) -> None:
        """Nothing is wrong: each gateway serves all, and a day's rounds get through, until nothing is left to erase."""
        for service in self.services:
            for partition in range(PARTITIONS):
                self._read_whole(service, partition)
        self.stop()
        for one in self.maintainers:
            self.scheduler.crash(one.machine)  # two at once may stop each other
        last = self._start_maintainer()
        for _ in range(DAYS):
            for _ in range(2):
                totals = last.run_round(collect=True)
                if totals is None or totals.failed_topics:
                    raise Violation(f"nothing is wrong, and maintenance fails: {totals}")
            self.scheduler.sleep_ms(26 * HOUR_MS)
        self.judge.end()


simulate_table = Simulation(TableWorld, PROFILES)
