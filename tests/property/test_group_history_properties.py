"""Any history of a group: no partition is ever two members', and once all have acknowledged each is a member's.

The members here are as slow and as forgetful as the contract lets them be: each acts on the last answer that it had, and keeps
what it was told that it may read until its acknowledgement of a newer generation is in the table.
"""

from __future__ import annotations

import msgspec
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from gateway.groups.assignment.assignors import ASSIGNORS
from gateway.groups.assignment.next_row import GroupEvents, Subscriptions, members_after, next_row
from log_format.groups.holdings import Holdings, partition_keys
from log_format.groups.row import GroupRow, MemberRow
from tests.support.group_rows import member_row

TOPICS = ("t0", "t1", "t2")
Key = tuple[str, int]

wishes = st.sets(st.sampled_from(TOPICS), min_size=1)


class GroupHistory(RuleBasedStateMachine):
    """A row, and what each member believes."""

    members = Bundle("members")

    @initialize(
        assignor=st.sampled_from(sorted(ASSIGNORS)), counts=st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 5))
    )
    def begin(self, assignor: str, counts: dict[str, int]) -> None:
        """An empty group."""
        self.assignor = assignor
        self.counts = counts
        self.row = GroupRow(
            group="g", epoch=1, coordinator="c", generation=0, assignor=None, members=(), changed_at_ms=0
        )
        self.believed: dict[str, set[Key]] = {}
        """What each member acts on: read, or has read and may still commit for."""
        self.heard: dict[str, int] = {}
        """The generation of each member's last answer."""
        self.pending: dict[str, int] = {}
        """Acknowledgements that the coordinator has, and that no row says yet."""
        self.joined = 0

    @rule(target=members, topics=wishes, instance=st.sampled_from((None, None, "a", "b")))
    def join(self, topics: set[str], instance: str | None) -> str:
        """A new member, or the next instance of a static one, whose last one is fenced from now on."""
        self.joined += 1
        name = f"m{self.joined:04d}"
        member = member_row(name, instance_id=instance, topics=tuple(sorted(topics)))
        self._take_in(joins=[member])
        self.believed[name] = set()
        self._hear(name)
        return name

    @rule(name=members)
    def beat(self, name: str) -> None:
        """A heartbeat that acknowledges what the member heard last; what it was told then is all that it has from then on."""
        if name not in self.believed:
            return
        if self.heard[name] == self.row.generation:
            self.pending[name] = self.heard[name]
            self._take_in()
            self.believed[name] = set()
        self._hear(name)

    @rule(name=members)
    def beat_and_lose_the_answer(self, name: str) -> None:
        """It acknowledges, and hears nothing: it has let go, and goes on with what it kept."""
        if name in self.believed and self.heard[name] == self.row.generation:
            self.pending[name] = self.heard[name]
            readable = set(partition_keys(Holdings(self.row).readable(name)))
            self._take_in()
            self.believed[name] &= readable

    @rule(name=consumes(members))
    def leave(self, name: str) -> None:
        """It leaves, or its session ended."""
        if name in self.believed:
            self._take_in(leaves={name})

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(0, 5))
    def topic_changes(self, topic: str, count: int) -> None:
        """Partitions are added, a topic is made, deleted, made anew."""
        self.counts.pop(topic, None)
        if count:
            self.counts[topic] = count
        self._take_in()

    @rule()
    def another_coordinator(self) -> None:
        """Memory is lost: what was acknowledged and freed nothing, too."""
        self.pending.clear()
        self.row = msgspec.json.decode(msgspec.json.encode(self.row), type=GroupRow)

    @rule()
    def all_acknowledge(self) -> None:
        """After two rounds of heartbeats everybody reads what it is given, and together they read everything once."""
        for _ in range(2):
            for name in list(self.believed):
                self._hear(name)
                self.beat(name)
        holdings = Holdings(self.row)
        read = [key for one in self.row.members for key in partition_keys(holdings.readable(one.member_id))]
        wanted = {topic for one in self.row.members for topic in one.topics} & self.counts.keys()
        assert sorted(read) == sorted((topic, number) for topic in wanted for number in range(self.counts[topic]))
        for one in self.row.members:
            assert holdings.readable(one.member_id) == one.target
            assert self.believed[one.member_id] == set(partition_keys(one.target))
        event(f"{min(len(self.row.members), 3)} members")

    @invariant()
    def no_partition_is_held_by_two(self) -> None:
        """Not by what members believe, and not by what the row says; and no member reads what it does not hold."""
        if not hasattr(self, "row"):
            return
        believed = [key for keys in self.believed.values() for key in keys]
        assert len(believed) == len(set(believed))
        holdings = Holdings(self.row)
        everything = [(topic, number) for topic in TOPICS for number in range(5)]
        for topic, number in everything:
            holders = [one.member_id for one in self.row.members if holdings.holds(one.member_id, topic, number)]
            assert len(holders) <= 1, (topic, number)
        for one in self.row.members:
            assert all(holdings.holds(one.member_id, *key) for key in partition_keys(holdings.readable(one.member_id)))
            assert all(holdings.holds(one.member_id, *key) for key in self.believed[one.member_id])

    def _hear(self, name: str) -> None:
        self.heard[name] = self.row.generation
        self.believed[name] |= set(partition_keys(Holdings(self.row).readable(name)))

    def _take_in(
        self, joins: tuple[MemberRow, ...] | list[MemberRow] = (), leaves: frozenset[str] | set[str] = frozenset()
    ) -> None:
        before = self.row
        happened = GroupEvents(joins=joins, leaves=leaves, acknowledged=dict(self.pending))
        members = members_after(before, happened)
        topics = {one.member_id: frozenset(one.topics) & self.counts.keys() for one in members}
        subscriptions = Subscriptions(topics=topics, counts=dict(self.counts))
        self.row = next_row(before, members, subscriptions, self.assignor)
        self.pending.clear()
        names = {one.member_id for one in self.row.members}
        self.believed = {name: keys for name, keys in self.believed.items() if name in names}
        targets = [{one.instance_id or one.member_id: one.target for one in row.members} for row in (before, self.row)]
        is_other = targets[0] != targets[1] or [one.topics for one in before.members] != [
            one.topics for one in self.row.members
        ]
        assert self.row.generation == before.generation + is_other


TestGroupHistory = GroupHistory.TestCase
TestGroupHistory.settings = settings(max_examples=120, stateful_step_count=40)
