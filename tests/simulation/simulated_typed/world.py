"""One history of a typed topic from one seed: gateways as they are, a registry whose subjects change, and misfortune.

Clients send documents and values that name their schema, fitting ones and others: plainly, numbered and repeated, in
transactions, and for later. Meanwhile versions are registered and deleted, by any gateway, and the topic gets other schemas,
none, or another way with records that do not fit. It comes to journals and leaves them, gateways and maintenance drain it, and
maintenance merges its segments, compacts its keys and gives columns to older records.

``simulate_typed(seed)`` returns what happened or raises ``Violation``: ``judge`` says of each record what it has to be, and here
each is counted:

1. A record that was acknowledged is in the topic once; one that was refused, or whose transaction was aborted, never.
2. At the end, when nothing fails any more, what was decided or is due is there, in the topic's table; maintenance gets through,
   and has given columns to all that it was asked for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from unittest import mock

from tests.simulation.simulated import faults
from tests.simulation.simulated.faults import MINUTE_MS, SECOND_MS, Faults, Profile
from tests.simulation.simulated.scheduler import Machine, MachineClock
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated.world import ignore
from tests.simulation.simulated_service.gateways_world import GatewaysWorld, Over, Simulation
from tests.simulation.simulated_service.journal_keeper import EAGER, JournalKeeper
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import EVENTFUL, Code, Service
from tests.simulation.simulated_typed.judge import SUBJECTS, TOPIC, TypedJudge
from tests.simulation.simulated_typed.maintainers import Maintainer
from tests.simulation.simulated_typed.values import Known, Sent, Values, schema_of, texts_of

CALM = replace(faults.CALM, turns=8, slow=0.0)
CROWDED = replace(faults.CROWDED, name="crowded, nothing fails", fault=0.0, slow=0.0, turns=10)
FAULTY = replace(faults.FAULTY, turns=6)
HOSTILE = replace(faults.HOSTILE, think_ms_max=2 * SECOND_MS)
RENEWED = replace(CALM, name="renewed", recreation=0.3)
"""The topic is deleted and made anew, perhaps with another schema."""
PROFILES = {CALM: 2, CROWDED: 3, FAULTY: 4, faults.STORMY: 3, HOSTILE: 2, RENEWED: 2}
BACKFILLED = replace(CALM, name="backfilled")
"""Not drawn: the topic gets a schema, for what it has, too, and loses it, all the time."""
MARKED = replace(CALM, name="marked")
"""Not drawn: what happens with unfit records changes all the time."""
PARTITIONS = 2
LATE_MS = 5 * MINUTE_MS
TRIES_MAX = 12
DRAINS_MAX = 60
LARGE = replace(EVENTFUL, staged_names_max=0, transaction_piece_bytes=1)


class TypedWorld(GatewaysWorld):
    """A topic, its subjects and their clients. Some gateways apply each transaction as a large one."""

    MAINTAINED: ClassVar[Sequence[str]] = (TOPIC,)
    COLLECTS: ClassVar[float] = 0.0
    """As ``Maintainer`` takes them."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, Faults(rng, profile))
        self.told = Counter()
        self.values = Values(rng)
        clock = MachineClock(self.scheduler, Machine("judge"))
        is_strict = not (profile.fault or profile.outage)
        self.judge = TypedJudge(
            self.server.objects,
            clock,
            lambda: self.scheduler.now_ms,
            is_strict=is_strict,
            upkeep_since_ms=self._upkeep_since_ms,
        )
        self.judge.sent = self.values.sent
        self.maintainers: list[Maintainer] = []
        self._ended: list[Maintainer] = []
        self._keeper = JournalKeeper()
        self._schemas = 0

    def run(self, seed: int, *, code: Code | None = None, on_note: Callable[[str], None] = ignore) -> None:
        """As every world, within its bounds. Committers of maintenance take their jitter from Python's own chance."""
        before = random.getstate()
        random.seed(seed)
        with ExitStack() as stack:
            stack.callback(random.setstate, before)
            for target, value in EAGER.items():
                stack.enter_context(mock.patch(target, value))
            super().run(seed, code=code, on_note=on_note)

    def written(self, key: str, data: bytes) -> None:
        """An object stands."""
        self.judge.written(key, data)

    def start_service(self) -> Service:
        """One more gateway."""
        machine = self.next_machine()
        bounds = self.rng.choice((EVENTFUL, EVENTFUL, LARGE))
        return self.service(self.client(machine), machine, with_publishing=True, bounds=bounds)

    def begin(self) -> None:
        """Start gateways, maintenance and actors."""
        self.start_some()
        for _ in range(self.rng.choice((1, 1, 2))):
            self.maintainers.append(self._start_maintainer())
        self.scheduler.start("upkeep of journals", self.outside, self._keep_journals)
        self.actor("creator", self._create)

    # Upkeep

    def machines(self) -> Sequence[Machine]:
        """Of the gateways, then of maintenance."""
        return [*super().machines(), *(one.machine for one in self.maintainers)]

    def crash(self, index: int) -> None:
        """End a gateway or a maintenance where it stands, and start another one instead."""
        if index < len(self.services):
            super().crash(index)
            return
        index -= len(self.services)
        ended = self.maintainers[index]
        self.scheduler.crash(ended.machine)
        self._ended.append(ended)
        self.maintainers[index] = self._start_maintainer()

    def _start_maintainer(self) -> Maintainer:
        machine = self.next_machine()
        maintainer = Maintainer(
            self.scheduler,
            self.client(machine),
            machine,
            topics=self.MAINTAINED,
            collects=self.COLLECTS,
            new_id=self._new_id,
            rng=self.rng,
            told=self.told,
        )
        body = partial(maintainer.live, lambda: self.busy == 0, self.profile, self.rng)
        self.scheduler.start(machine.name, machine, body)
        return maintainer

    def _upkeep_since_ms(self) -> int:
        """Since when a round may be under way whose commits may come; also one that was killed."""
        began = [one.began_ms for one in (*self.maintainers, *self._ended)]
        return min((one for one in began if one is not None), default=self.scheduler.now_ms)

    def _keep_journals(self) -> None:
        while self.busy:
            self.scheduler.sleep_ms(self.rng.randrange(1, 2 * self.profile.think_ms_max))
            self._keeper.keep(self.rng.choice(self.services))

    def _create(self) -> None:
        for subject in SUBJECTS:
            self.insist("PUT", f"/registry/config/{subject}", {"compatibility": "NONE"})
            while not self._register(subject, ()):
                self.think()
            self._schemas = 0  # the first schemas are the same, and have the same id
        self._make()
        for subject in reversed(SUBJECTS):
            self.insist("PATCH", f"/v1/topics/{TOPIC}", {"config": {"value.schema": subject}})
        for index in range(2):
            self.actor(f"plain-{index}", partial(self._turns, self._plain, 2))
        for index in range(2):
            self.actor(f"numbered-{index}", self._numbered)
        self.actor("transactor", partial(self._turns, self._transaction))
        self.actor("registrar", partial(self._turns, self._change_registry, 2))
        self.actor("administrator", partial(self._turns, self._alter))
        self.actor("misfortune", partial(self.misfortune, self.profile.turns))
        if self.profile.recreation:
            self.actor("renewer", partial(self.renew, self.profile.turns, lambda: TOPIC, lambda _: self._make()))

    def _turns(self, turn: Callable[[], None], times: int = 1) -> None:
        for _ in range(times * self.profile.turns):
            turn()
            self.think()

    def _make(self) -> None:
        config: dict[str, Any] = {"flush.ms": self.rng.choice((0, 100)), "value.schema": self.rng.choice(SUBJECTS)}
        config["data.on.error"] = self.rng.choice(("reject", "mark"))
        config["commit.mode"] = self.rng.choice(("own", "shared", "auto"))
        config["drain.ms"] = self.rng.choice((1_000, 5_000))
        config["data.backfill"] = self.rng.choice(("off", "on", "on"))
        config["cleanup.policy"] = self.rng.choice(("delete", "compact"))
        body = {"name": TOPIC, "partition_count": PARTITIONS, "config": config}
        while True:
            reply = self._call("POST", "/v1/topics", body)
            if isinstance(reply, Reply) and (reply.status < 300 or reply.error_code == "TOPIC_ALREADY_EXISTS"):
                return
            if isinstance(reply, Reply) and reply.error_code == "INVALID_CONFIG":
                config.pop("value.schema")  # its versions are deleted at this moment
            self.think()

    # The registry, and the topic's settings

    def _register(self, subject: str, fields: tuple[str, ...], id_type: str = "long") -> bool:
        schema = schema_of(fields, self._schemas, id_type)
        self._schemas += 1
        reply = self._call("POST", f"/registry/subjects/{subject}/versions", {"schema": schema, "schemaType": "AVRO"})
        if isinstance(reply, Reply) and reply.status == 200:
            self.values.known.append(Known(subject, reply.body["id"], schema))
            self.told["registered"] += 1
            return True
        if isinstance(reply, Reply) and reply.status == 409:
            self.told["conflict refused"] += 1
        return False

    def _change_registry(self) -> None:
        subject, kind = self.rng.choice(SUBJECTS), self.rng.random()
        if kind < 0.55:
            mine = [one for one in self.values.known if one.subject == subject]
            kept = [name for name in texts_of(mine[-1].schema) if self.rng.random() < 0.7]
            self._register(subject, (*kept, f"{subject}{self._schemas}"))
        elif kind < 0.65:
            self._register(subject, (), id_type=self.rng.choice(("string", "int")))
        elif kind < 0.9:
            self._call("DELETE", f"/registry/subjects/{subject}/versions/latest")
        else:
            self._call("DELETE", f"/registry/subjects/{subject}")
            self.told["subject deleted"] += 1

    def _alter(self) -> None:
        kind = self.rng.random()
        if self.profile is BACKFILLED:
            config: dict[str, Any] = {"value.schema": self.rng.choice(("a", None)), "data.backfill": "on"}
        elif kind < 0.2 or self.profile is MARKED:
            config = {"data.on.error": self.rng.choice(("reject", "mark"))}
        elif kind < 0.5:
            config = {"value.schema": self.rng.choice((*SUBJECTS, None, None))}
        elif kind < 0.8:
            config = {"commit.mode": self.rng.choice(("own", "shared", "shared", "auto"))}
        elif kind < 0.9:
            config = {"data.backfill": self.rng.choice(("off", "on"))}
        else:
            config = {"cleanup.policy": self.rng.choice(("delete", "compact"))}
        reply = self._call("PATCH", f"/v1/topics/{TOPIC}", {"config": config})
        self.told["altered"] += self._is_done(reply)

    # Producers

    def _records(self) -> list[Sent]:
        return [self.values.make(self.scheduler.now_ms) for _ in range(self.rng.randrange(1, 4))]

    def _send(self, sent: list[Sent], headers: dict[str, str] | None = None) -> Reply | Lost:
        """Send them once."""
        records = [one.as_record() | {"partition": self.rng.randrange(PARTITIONS)} for one in sent]
        for one, record in zip(sent, records, strict=True):
            if one.is_promised and "tidelog-transaction" not in (headers or {}):
                record["deliver_after_ms"] = self.rng.choice((300, 2_000, 20_000))
        began_ms = self.scheduler.now_ms
        reply = self._call("POST", f"/v1/topics/{TOPIC}/records", {"records": records}, headers)
        if isinstance(reply, Reply) and reply.error_code in {"INVALID_RECORD", "INVALID_CONFIG"}:
            self.told["refused"] += 1
            self.judge.refused(sent, began_ms, reply.error_code)
        return reply

    def _plain(self) -> None:
        sent = self._records()
        if self.rng.random() < 0.3:
            for one in sent:
                one.is_promised = True
        reply = self._send(sent)
        if isinstance(reply, Lost) or reply.status < 300 or reply.may_have_happened:
            for one in sent:
                one.at_most = 1
                one.at_least = int(self._is_done(reply))
                one.acknowledged_ms = self.scheduler.now_ms if one.at_least else None
            self.told["acknowledged" if self._is_done(reply) else "in doubt"] += 1

    def _numbered(self) -> None:
        """Each request again until it is answered. Behind a refusal or an outcome that stays unknown another producer goes on."""
        named: dict[str, str] = {}
        sequence = 0
        for _ in range(2 * self.profile.turns):
            while not named:
                reply = self._call("POST", "/v1/producers", {})
                if isinstance(reply, Reply) and reply.status < 300:
                    named = {"Tidelog-Producer-Id": reply.body["producer_id"], "Tidelog-Producer-Epoch": "0"}
                    sequence = 0
                self.think()
            if self._is_stored(self._records(), named | {"Tidelog-Producer-Sequence": str(sequence)}):
                sequence += 1
            else:
                named = {}
            self.think()

    def _is_stored(self, sent: list[Sent], headers: dict[str, str]) -> bool:
        for attempt in range(TRIES_MAX):
            reply = self._send(sent, headers)
            if isinstance(reply, Reply) and reply.error_code in {"INVALID_RECORD", "INVALID_CONFIG"}:
                return False
            for one in sent:
                one.at_most = 1
                one.at_least = int(self._is_done(reply))
            if self._is_done(reply):
                self.told["repeated"] += attempt > 0
                return True
            self.scheduler.sleep_ms(self.rng.randrange(1, 3 * SECOND_MS))
        return False

    def _transaction(self) -> None:
        begun = self._call("POST", "/v1/transactions", {"transactional_id": "x", "timeout_ms": 60_000})
        if not isinstance(begun, Reply) or begun.status != 201:
            return
        staged: list[Sent] = []
        path = f"/v1/transactions/{begun.body['transaction_id']}"
        is_whole = True
        for _ in range(self.rng.randrange(1, 4)):
            sent = self._records()
            for one in sent:
                one.is_promised = one.is_staged = True
                one.at_most = 1
            reply = self._send(sent, {"tidelog-transaction": begun.body["transaction_id"]})
            is_whole = is_whole and self._is_done(reply)
            staged += sent
            self.think()
        is_committed = is_whole and self.rng.random() < 0.8
        reply = self._call("POST", f"{path}:{'commit' if is_committed else 'abort'}")
        if self._is_done(reply):
            self.told["committed" if is_committed else "aborted"] += 1
            for one in staged:
                one.at_least = one.at_most = int(is_committed)

    def _call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply | Lost:
        return self.network.call(self.rng.choice(self.services), method, path, body, headers)

    def _is_done(self, reply: Reply | Lost) -> bool:
        return isinstance(reply, Reply) and reply.status < 300

    # The end

    def ended(self) -> None:
        """Nothing failed beside requests."""
        self._keeper.check()

    def at_rest(self) -> None:
        """All that was decided or is due is there; then what clients were told is compared with what there is."""
        for service in self.services:
            service.sweep()
        self.scheduler.sleep_ms(LATE_MS)
        for _ in range(DRAINS_MAX):
            if self.judge.is_drained:
                break
            for service in self.services:
                self._keeper.keep(service, is_over=True)
            self.scheduler.sleep_ms(3 * SECOND_MS)
        else:
            raise Violation("the journals are not drained")
        self._maintain_last()
        for sent in self.values.sent.values():
            is_of_present = not self.profile.recreation
            least, count = sent.at_least if is_of_present else 0, len(sent.committed_ms)
            if not least <= count <= sent.at_most:
                raise Violation(f"{sent} is there {count} times, not {least} to {sent.at_most}")
        self.told.update(self.judge.seen)

        def over() -> None:
            raise Over

        self.scheduler.at(0, over)

    def _maintain_last(self) -> None:
        """Nothing is wrong, so two rounds get through: the second one finds what the first one could not know."""
        for _ in range(2):
            totals = self.maintainers[0].run_round()
            self.scheduler.sleep_ms(SECOND_MS)
        if totals is None or totals.failed_topics:
            raise Violation(f"nothing is wrong, and maintenance fails: {totals}")
        self.judge.end(totals)


simulate_typed = Simulation(TypedWorld, PROFILES)
