"""One history of consumer groups from one seed: gateways as they are, members by HTTP and by Kafka's classic protocol, one store,
and misfortune.

Members join, leave, die, freeze longer than their session and come back. Gateways crash, stand still and lose sight of each
other, so that several believe that they coordinate a group. At the end nothing fails any more, and a member that is left alone
with each group must be able to read and commit everything. ``simulate_groups(seed)`` returns what happened or raises
``Violation``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from gateway.groups.assignment.assignors import ASSIGNORS
from log_format import layout
from tests.simulation.simulated import faults
from tests.simulation.simulated.faults import SECOND_MS, Profile
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated.world import ignore
from tests.simulation.simulated_groups.classic_members import COOPERATIVE, EAGER, ClassicMember
from tests.simulation.simulated_groups.ledger import Key, Ledger
from tests.simulation.simulated_groups.members import Habits, Member
from tests.simulation.simulated_kafka.line import Line
from tests.simulation.simulated_service.coordinated_world import Around, CoordinatedWorld
from tests.simulation.simulated_service.gateways_world import Simulation, made_by
from tests.simulation.simulated_service.network import Reply
from tests.simulation.simulated_service.service import Code, Service

GROUPS = ("g", "h")
TOPICS = {"t": 3, "u": 2}
MEMBERS = 3
RECORDS = 6
"""Of each partition."""
SETTLED_MS_MAX = 180 * SECOND_MS

CALM = replace(faults.CALM, turns=14)
FAULTY = replace(faults.FAULTY, turns=14, pause_ms_max=25 * SECOND_MS)
STORMY = replace(faults.STORMY, turns=14, pause_ms_max=25 * SECOND_MS)
HOSTILE = replace(faults.HOSTILE, turns=10, think_ms_max=3 * SECOND_MS)
PASSING = replace(faults.PASSING, turns=16, pause_ms_max=25 * SECOND_MS)
RENEWED = replace(PASSING, name="renewed", recreation=0.5)
RENEWED_FAULTY = replace(FAULTY, name="renewed, faulty", recreation=0.3)
"""Topics are deleted and made anew under the members."""
HASTY = replace(RENEWED, name="hasty", think_ms_max=300, recreation=0.9, turns=20)
"""So fast that members commit for a topic that is gone before they are told."""
PROFILES = {CALM: 1, FAULTY: 3, STORMY: 2, PASSING: 3, HOSTILE: 1, RENEWED: 2, RENEWED_FAULTY: 2}


CLASSIC = {1: EAGER, 3: COOPERATIVE}
"""Of eight seeds those whose histories have members by the classic protocol."""


class GroupsWorld(CoordinatedWorld):
    """Two groups, their members, and an operator of each. In some histories half of the members speak Kafka's classic
    protocol."""

    def __init__(self, rng: random.Random, profile: Profile) -> None:
        super().__init__(rng, profile, GROUPS)
        self.ledger = Ledger(lambda: self.scheduler.now_ms, self.scheduler.note)
        self.told = self.ledger.told
        self._classic = ""

    def run(self, seed: int, *, code: Code | None = None, on_note: Callable[[str], None] = ignore) -> None:
        """As every world; the seed decides whether there are members by Kafka's classic protocol."""
        self._classic = CLASSIC.get(seed % 8, "")
        super().run(seed, code=code, on_note=on_note)

    def begin_clients(self) -> None:
        """Make topics; start members, an operator of each group, and misfortune."""
        for topic in TOPICS:
            self._make(topic)
        for group in GROUPS:
            assignor = self.rng.choice(tuple(ASSIGNORS))
            for index in range(MEMBERS):
                self.actor(f"{group}-{index}", self._member(group, assignor, index).run)
            self.actor(f"operator of {group}", partial(self._operate, group))
        self.actor("misfortune", partial(self.misfortune, 2 * self.profile.turns))
        if self.profile.recreation:
            self.actor(
                "renewer", partial(self.renew, self.profile.turns, lambda: self.rng.choice(list(TOPICS)), self._make)
            )

    def _make(self, topic: str) -> None:
        """See to it that the topic is there, and has some more records."""
        body = {"name": topic, "partition_count": TOPICS[topic], "config": {"flush.ms": 0}}
        self.insist("POST", "/v1/topics", body)
        records = [{"partition": p, "value": "x"} for p in range(TOPICS[topic]) for _ in range(RECORDS)]
        # A deletion that comes late may hit the new topic.
        while not self.ask_to_produce(topic, lambda: records):
            self.insist("POST", "/v1/topics", body)

    def _member(self, group: str, assignor: str, index: int) -> Member:
        if self._classic and self.rng.random() < 0.5:
            return self._classic_member(group)
        rng = self.rng
        joining: dict[str, Any] = {"assignor": assignor}
        topics = rng.choice((["t"], ["t", "u"], ["t", "u"], None))
        joining |= {"topic_pattern": "[a-z]"} if topics is None else {"topics": topics}
        habits = Habits(
            freeze=rng.choice((0.0, 0.1, 0.2)),
            leave=rng.choice((0.0, 0.1)),
            die=rng.choice((0.0, 0.1)),
            polls=rng.random() < 0.4,
            says_ids=self.profile.recreation > 0,
        )
        instance_id = f"instance-{index}" if rng.random() < 0.3 else None
        return Member(Around(self, self.ledger), group, joining, habits, instance_id)

    def _classic_member(self, group: str) -> Member:
        rng = self.rng
        habits = Habits(
            freeze=rng.choice((0.0, 0.1, 0.2)),
            leave=0.1,
            die=rng.choice((0.0, 0.1)),
            polls=False,
            says_ids=self.profile.recreation > 0,
        )
        return ClassicMember(
            Around(self, self.ledger),
            group,
            rng.choice((["t"], ["t", "u"])),
            habits,
            protocol=self._classic,
            counts=TOPICS,
            connect=lambda service: Line(self.scheduler, rng, self.faults, service),
        )

    def _operate(self, group: str) -> None:
        """Looks at a group and now and then sets it back to its beginning, or ends it."""
        around = Around(self, self.ledger)
        for _ in range(self.profile.turns):
            self.think()
            match self.rng.randrange(5):
                case 0:
                    body = {"topics": ["t"], "to": self.rng.choice(("earliest", {"shift": -2}))}
                    around.call(group, "POST", f"/v1/groups/{group}/offsets:reset", body)
                case 1 if self.rng.random() < 0.3:
                    around.call(group, "DELETE", f"/v1/groups/{group}")
                case _:
                    self._describe(around, group)

    def _describe(self, around: Around[Ledger], group: str) -> None:
        reply = around.call(group, "GET", f"/v1/groups/{group}")
        if isinstance(reply, Reply) and reply.status == 200:
            given = Counter(
                (one["topic"], one["partition"]) for member in reply.body["members"] for one in member["assignment"]
            )
            if given and max(given.values()) > 1:
                raise Violation(f"the description of {group} has a partition twice: {reply.body}")
            self.ledger.told["described"] += 1

    # The end

    def at_rest(self) -> None:
        """A member that is alone with a group reads and commits all; then the gateways end, which would never rest."""
        self.ledger.told["minutes"] += self.scheduler.now_ms // (60 * SECOND_MS)
        if self.profile.recreation:
            # A gateway that stands still may have a deletion yet whose client has asked again elsewhere.
            self.scheduler.sleep_ms(2 * self.profile.pause_ms_max)
        for topic in TOPICS:
            self._make(topic)
        ends = self._ends()
        habits = Habits(freeze=0, leave=0, die=0, polls=False, says_ids=True)
        for group in GROUPS:
            row_assignor = self._assignor_of(group)
            member = Member(
                Around(self, self.ledger), group, {"assignor": row_assignor, "topics": sorted(TOPICS)}, habits
            )
            deadline_ms = self.scheduler.now_ms + SETTLED_MS_MAX
            while not member.read_to(ends):
                if self.scheduler.now_ms > deadline_ms:
                    raise Violation(f"group {group} does not come to rest in {SETTLED_MS_MAX} ms")
                self.scheduler.sleep_ms(200)
            self.ledger.finished(group, ends)
            member.leave()
        for group in GROUPS:
            self._set_back(group)
        self.scheduler.at(0, self.stop)

    def _set_back(self, group: str) -> None:
        """No member is left: an operator may set everything back, and every gateway says so."""
        around = Around(self, self.ledger)
        deadline_ms = self.scheduler.now_ms + SETTLED_MS_MAX
        while True:
            body = {"topics": sorted(TOPICS), "to": "earliest"}
            reply = around.call(group, "POST", f"/v1/groups/{group}/offsets:reset", body)
            if isinstance(reply, Reply) and reply.status == 200:
                break
            if self.scheduler.now_ms > deadline_ms:
                raise Violation(f"group {group} cannot be set back in {SETTLED_MS_MAX} ms: {reply}")
            self.scheduler.sleep_ms(200)
        self.ledger.was_set_back(group, [(topic, number) for topic, count in TOPICS.items() for number in range(count)])

    def _assignor_of(self, group: str) -> str:
        while True:
            reply = Around(self, self.ledger).call(group, "GET", f"/v1/groups/{group}")
            if isinstance(reply, Reply) and reply.status in {200, 404}:
                known = str(reply.body.get("assignor"))
                return known if known in ASSIGNORS else "range"
            self.scheduler.sleep_ms(200)

    def _ends(self) -> dict[Key, int]:
        ends: dict[Key, int] = {}
        for topic, partition_count in TOPICS.items():
            for partition in range(partition_count):
                reply = self.insist("GET", f"/v1/topics/{topic}/partitions/{partition}/offsets")
                ends[topic, partition] = reply.body["high_watermark"]
        return ends

    # Gateways

    def start_service(self) -> Service:
        """One more gateway."""
        machine = self.next_machine()
        ownership = self.ownership(machine)
        return self.service(self.client(machine), machine, with_groups=True, with_kafka=True, ownership=ownership)

    def written(self, key: str, data: bytes) -> None:
        """Commits are the ledger's truth."""
        version = layout.commit_version(key)
        if version is not None and key.startswith(layout.CONSUMER_OFFSETS_ROOT):
            self.scheduler.note(f"version {version} of the groups stands: {data[:60]!r}")
            self.ledger.landed(data, key)
        elif version is not None and key.startswith(layout.TOPICS) and (made := made_by(data)) is not None:
            self.ledger.topic_is(key.split("/")[1], None if made.is_deleted else made.topic_id)


simulate_groups = Simulation(GroupsWorld, PROFILES)
