"""The judge of histories of consumer groups: it compares what members may believe with each other and with the table (G7).

1. No two members hold a partition. A member holds what its last answer gave it, from that answer until it lets go, is told that
   it is out, or its session has ended. The session ends by the member's own clock, measured from the sending of the last
   answered request. A static member's next instance replaces it at once: its operator promises that there are not two.
2. No record is skipped. A member processes before it commits; so some member has processed everything below a committed offset.
3. A committed offset goes back by a reset only.
4. A zombie commits nothing after another member has taken the partition.
5. What is acknowledged is in the table, all partitions of one request in one version. What is refused is not, neither before
   its refusal nor later.
6. A rewrite of the table changes nothing.
7. A position belongs to a topic, not to its name: 2 and 3 hold for each incarnation, and a commit for one that is gone
   neither moves a position in the one that is there nor takes its offset away.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from log_format.delta.actions import Add, decode_commit
from log_format.groups.row import TAG_GROUPS, GroupChanges, GroupRow, OffsetRow, PendingOffsets, decode_tag
from tests.simulation.simulated.truth import Violation

Place = tuple[str, str, int]
"""Group, topic, partition."""
Key = tuple[str, int]
"""Topic, partition."""


class Offset(NamedTuple):
    """The next record to read, and of which incarnation of the topic."""

    offset: int
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a member believes of one partition."""

    member: str
    instance: str | None
    until_ms: int


class Ledger:
    """``now_ms``: virtual time; ``note``: adds to the trace."""

    def __init__(self, now_ms: Callable[[], int], note: Callable[[str], None]) -> None:
        self.told: Counter[str] = Counter()
        self._now_ms = now_ms
        self._note = note
        self._offsets: dict[Place, OffsetRow] = {}
        self._rows: dict[str, GroupRow] = {}
        self._pending: dict[tuple[str, str], PendingOffsets] = {}
        self._history: dict[Place, list[tuple[int, int | None]]] = defaultdict(lambda: [(-1, None)])
        """What a reader of the group's offsets is shown, since when."""
        self._ids: dict[str, str | None] = {}
        """The incarnation that each topic has."""
        self._gone: set[str] = set()
        self._committed: list[dict[tuple[str, str], dict[Key, Offset]]] = []
        self._holdings: dict[Place, Holding] = {}
        self._takers: dict[Place, list[str]] = defaultdict(list)
        self._processed: dict[tuple[Place, str], set[int]] = defaultdict(set)
        """By place and incarnation."""
        self._under_way: Counter[tuple[str, Place, Offset]] = Counter()
        self._sent: dict[tuple[str, str, frozenset[tuple[Key, Offset]]], int] = {}
        """How many commits stood when a member last sent these offsets."""
        self._replaced: set[str] = set()

    # What members believe

    def takes(self, group: str, member: str, instance: str | None, keys: Iterable[Key], until_ms: int) -> None:
        """A member is told what it may read."""
        if member in self._replaced:
            return
        for key in sorted(keys):
            place = (group, *key)
            other = self._holdings.get(place)
            if other is not None and other.member != member:
                is_next = instance is not None and other.instance == instance
                if is_next:
                    self._replaced.add(other.member)
                elif other.until_ms > self._now_ms() and not self._is_replaced(other):
                    raise Violation(f"{member} is given {place}, which {other.member} holds until {other.until_ms}")
            self._holdings[place] = Holding(member=member, instance=instance, until_ms=until_ms)
            if self._takers[place][-1:] != [member]:
                self._note(f"{member} takes {place} until {until_ms}")
                self._takers[place].append(member)
                self.told["partition taken"] += 1

    def lets_go(self, group: str, member: str, keys: Iterable[Key]) -> None:
        """A member stops reading."""
        for key in sorted(keys):
            holding = self._holdings.get((group, *key))
            if holding is not None and holding.member == member:
                del self._holdings[group, *key]
                self._note(f"{member} lets go of {group} {key}")

    def processed(self, group: str, key: Key, topic_id: str, offsets: Iterable[int]) -> None:
        """A member that holds the partition has processed its records."""
        self._processed[(group, *key), topic_id] |= set(offsets)
        self.told["processed"] += 1

    # What they ask and are answered

    def sends(self, group: str, member: str, offsets: Mapping[Key, Offset]) -> None:
        """A commit is on its way."""
        self._note(f"{member} of {group} commits {dict(offsets)}")
        self._sent[group, member, frozenset(offsets.items())] = len(self._committed)
        for key, offset in offsets.items():
            self._under_way[member, (group, *key), offset] += 1

    def acknowledged(self, group: str, member: str, offsets: Mapping[Key, Offset]) -> None:
        """It was answered with success: what is of a topic that is gone may be left out."""
        self.told["commit acknowledged"] += 1
        self._note(f"{member} of {group} has committed {dict(offsets)}")
        kept = {key: offset for key, offset in offsets.items() if offset.topic_id not in self._gone}
        if kept and not any(kept.items() <= version.get((group, member), {}).items() for version in self._committed):
            raise Violation(
                f"the commit of {dict(offsets)} by {member} was acknowledged and is not in the table as one"
            )
        self._arrived(group, member, offsets)

    def refused(self, group: str, member: str, offsets: Mapping[Key, Offset], why: str) -> None:
        """It was answered that it did not happen."""
        self.told[f"commit refused: {why}"] += 1
        since = self._sent[group, member, frozenset(offsets.items())]
        stands = any(offsets.items() <= version.get((group, member), {}).items() for version in self._committed[since:])
        # An unanswered try may have committed it.
        is_only_try = all(self._under_way[member, (group, *key), offset] == 1 for key, offset in offsets.items())
        if offsets and stands and is_only_try:
            raise Violation(f"the commit of {dict(offsets)} by {member} was refused ({why}) and stands")
        self._arrived(group, member, offsets)

    def _arrived(self, group: str, member: str, offsets: Mapping[Key, Offset]) -> None:
        for key, offset in offsets.items():
            self._under_way[member, (group, *key), offset] -= 1

    def read(self, group: str, offsets: Mapping[Key, int], keys: Iterable[Key], since_ms: int) -> None:
        """A client read the group's offsets; none of ``keys`` may be newer or older than what stood meanwhile."""
        for key in keys:
            stood = self._between((group, *key), since_ms)
            if offsets.get(key) not in stood:
                raise Violation(f"{(group, *key)} was read as {offsets.get(key)}, it was {stood}")
        self.told["offsets read"] += 1

    # What happens in the table

    def landed(self, data: bytes, key: str) -> None:
        """A commit appeared in the store."""
        version: dict[tuple[str, str], dict[Key, Offset]] = defaultdict(dict)
        self._committed.append(version)
        for add in decode_commit(data, key).adds:
            all_changes = decode_tag(str((add.tags or {})[TAG_GROUPS]))
            if not add.data_change:
                self._rewritten(add, all_changes)
                continue
            for changes in all_changes:
                self._changed(changes, version)

    def topic_is(self, topic: str, topic_id: str | None) -> None:
        """A topic was made or, None, deleted: what was committed of another incarnation is not shown any more."""
        if (before := self._ids.get(topic)) is not None:
            self._gone.add(before)
        self._ids[topic] = topic_id
        for place in [place for place in self._history if place[1] == topic]:
            self._show(place)

    def _show(self, place: Place) -> None:
        row = self._offsets.get(place)
        is_shown = row is not None and row.topic_id == self._ids.get(place[1])
        self._history[place].append((self._now_ms(), row.offset if row is not None and is_shown else None))

    def _changed(self, changes: GroupChanges, version: dict[tuple[str, str], dict[Key, Offset]]) -> None:
        for group in changes.groups:
            self._rows[group.group] = group
            members = [(one.member_id, one.target, one.held, one.acknowledged) for one in group.members]
            self._note(f"{group.group} has generation {group.generation} in epoch {group.epoch}: {members}")
        settled = {self._pending[one[1], one[0]] for one in changes.settled if (one[1], one[0]) in self._pending}
        for row in changes.offsets:
            self._note(f"{row.group} {row.key} is {row.offset} by {row.member} in {row.generation}")
            if all(row.key not in {other.key for other in one.offsets} for one in settled):
                self._moved(row)
            if row.member is not None and row.offset is not None:
                version[row.group, row.member][row.key] = Offset(row.offset, row.topic_id)
            place = (row.group, *row.key)
            if row.offset is None:
                self._offsets.pop(place, None)
            else:
                self._offsets[place] = row
            self._show(place)
        for pending in changes.pending:
            self._pending[pending.transaction_id, pending.group] = pending
        for one in settled:
            del self._pending[one.transaction_id, one.group]
        for name in changes.deleted:
            self._rows.pop(name, None)
            assert not [place for place in self._offsets if place[0] == name], "a group ends with nulls for its offsets"

    def _moved(self, row: OffsetRow) -> None:
        place = (row.group, *row.key)
        before = self._offsets.get(place)
        if row.member is None or row.offset is None:
            self._moved_by_nobody(place, row)
            return
        self._check_place(place, row.member)
        is_begun = row.offset == 0
        if not is_begun and self._under_way[row.member, place, Offset(row.offset, row.topic_id)] <= 0:
            raise Violation(f"{row.member} has {row.offset} committed for {place}, which it does not ask for")
        if before is not None and before.offset is not None:
            self._check_step(place, before, row)
        skipped = set(range(row.offset)) - self._processed[place, row.topic_id]
        if skipped:
            raise Violation(f"{row.member} has {row.offset} committed for {place}: nobody processed {sorted(skipped)}")

    def _check_step(self, place: Place, before: OffsetRow, row: OffsetRow) -> None:
        """A member's commit stands behind another row of the partition, both with an offset."""
        if before.topic_id != row.topic_id:
            self.told["first of a topic made anew"] += 1
            if row.topic_id in self._gone and before.topic_id not in self._gone:
                raise Violation(f"{row.member} took {before} away by {row}, whose topic is gone")
        elif (row.offset or 0) < (before.offset or 0):
            raise Violation(f"{row.member} put {place} back from {before.offset} to {row.offset}")

    def _moved_by_nobody(self, place: Place, row: OffsetRow) -> None:
        holding = self._holdings.get(place)
        if holding is not None and holding.until_ms > self._now_ms():
            raise Violation(f"{place} was set to {row.offset} while {holding.member} holds it")
        # A member that read there before comes back as one that reads anew.
        self._takers[place].append("")
        self.told["reset landed" if row.offset is not None else "erased"] += 1

    def _check_place(self, place: Place, member: str) -> None:
        takers = self._takers[place]
        if not takers or takers[-1] == member:
            return
        holding = self._holdings.get(place)
        if member in takers:
            raise Violation(f"{member} committed for {place} after {takers[-1]} took it")
        if holding is not None and holding.until_ms > self._now_ms() and not self._is_replaced(holding):
            raise Violation(f"{member} committed for {place} while {holding.member} holds it")

    def _is_replaced(self, holding: Holding) -> bool:
        """Whether the static member came back: its join acknowledges the generation, and what moves in it is free."""
        if holding.instance is None:
            return False
        rows = [member for row in self._rows.values() for member in row.members]
        names = {row.member_id for row in rows if row.instance_id == holding.instance}
        return bool(names) and holding.member not in names

    def _rewritten(self, add: Add, all_changes: list[GroupChanges]) -> None:
        self.told["rewritten"] += 1
        offsets = {(row.group, *row.key): row for changes in all_changes for row in changes.offsets}
        rows = {row.group: row for changes in all_changes for row in changes.groups}
        pending = {(one.transaction_id, one.group): one for changes in all_changes for one in changes.pending}
        if (offsets, rows, pending) != (self._offsets, self._rows, self._pending):
            raise Violation(f"the rewrite {add.path} does not hold what the table held")

    def _between(self, place: Place, since_ms: int) -> set[int | None]:
        history = self._history[place]
        before = [offset for time_ms, offset in history if time_ms < since_ms]
        return {before[-1], *(offset for time_ms, offset in history if time_ms >= since_ms)}

    # At the end

    def finished(self, group: str, ends: Mapping[Key, int]) -> None:
        """A member that was left alone with the group has read and committed everything."""
        for key, end in ends.items():
            row, topic_id = self._offsets.get((group, *key)), self._ids[key[0]] or ""
            if (0 if row is None or row.topic_id != topic_id else row.offset) != end:
                raise Violation(f"{group} ended with {row} for {key}, which ends at {end}")
            if skipped := set(range(end)) - self._processed[(group, *key), topic_id]:
                raise Violation(f"nobody of {group} processed {sorted(skipped)} of {key}")

    def was_set_back(self, group: str, keys: Iterable[Key]) -> None:
        """A gateway answered that the offsets are at the beginning, and no member commits any more."""
        for key in keys:
            row = self._offsets.get((group, *key))
            if row is None or row.offset != 0 or row.topic_id != self._ids[key[0]]:
                raise Violation(f"{group} was set back, and has {row} for {key}")
