"""What members of one group saw, and the judge of it. Pure: a history goes in, contradictions come out.

1. No two members hold a partition. A member holds what an answer gave it from that answer on. It lets go by the request after
   an answer that no longer names the partition, when it is told that it is out, or when its session is over. The session ends
   by the member's own clock, counted from the sending of the last answered request.
2. A committed offset never goes back, except by a request whose sender lost sight of it.
3. A member processes before it commits: some member has processed every record below a committed offset.
4. What was acknowledged is there in the end.
5. The table has a commit as often as it was acknowledged; only unanswered requests may add to that. What was refused is not
   there, neither before its refusal nor later.

All times are seconds of one clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer that says which partitions the member may read; ``is_out``: that it is none any more."""

    started: float
    ended: float
    partitions: frozenset[int] = frozenset()
    is_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Offsets by partition; ``ended`` None: no answer came. Refused ones are left out."""

    started: float
    ended: float | None
    offsets: dict[int, int]


@dataclass(slots=True)
class MemberHistory:
    """One member, from joining until it is out or the history ends."""

    member_id: str
    session_seconds: float
    sent: list[float] = field(default_factory=list)
    """When each request was sent, answered or not."""
    told: list[Told] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    refused: list[dict[int, int]] = field(default_factory=list)
    """The offsets of commits that were answered not to have happened."""
    processed: list[tuple[float, int, int]] = field(default_factory=list)
    """When, which partition, which offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    member_id: str
    since: float
    until: float


def contradictions(members: Iterable[MemberHistory], committed: dict[int, int]) -> list[str]:
    """All that can't be; ``committed``: the group's offsets by partition in the end."""
    histories = list(members)
    return [*_held_by_two(histories), *_commits(histories), *_skipped(histories), *_lost(histories, committed)]


def _held_by_two(members: list[MemberHistory]) -> Iterator[str]:
    by_partition: dict[int, list[_Held]] = defaultdict(list)
    for member in members:
        for partition, held in _holdings(member):
            by_partition[partition].append(held)
    for partition, holdings in by_partition.items():
        latest: _Held | None = None
        for held in sorted(holdings, key=lambda one: one.since):
            if latest is not None and held.since < latest.until and held.member_id != latest.member_id:
                yield (
                    f"partition {partition} is held by {latest.member_id} until {latest.until:.3f} "
                    f"and by {held.member_id} from {held.since:.3f} on"
                )
            if latest is None or held.until > latest.until:
                latest = held


def _holdings(member: MemberHistory) -> Iterator[tuple[int, _Held]]:
    end = Told(started=inf, ended=inf)
    for index, told in enumerate(member.told):
        following = member.told[index + 1] if index + 1 < len(member.told) else end
        lets_go = min((sent for sent in member.sent if sent > following.ended), default=inf)
        over = told.started + member.session_seconds
        for partition in told.partitions:
            keeps = following.is_out or partition in following.partitions
            until = min(over, following.ended if keeps else lets_go)
            if until > told.ended:
                yield partition, _Held(member_id=member.member_id, since=told.ended, until=until)


def _commits(members: list[MemberHistory]) -> Iterator[str]:
    unanswered = [commit for member in members for commit in member.commits if commit.ended is None]
    answered = [(member.member_id, one) for member in members for one in member.commits if one.ended is not None]
    answered.sort(key=lambda entry: entry[1].started)
    highest: dict[int, tuple[float, int, str]] = {}
    by_end = sorted(answered, key=lambda entry: entry[1].ended or 0.0)
    ended = 0
    for name, commit in answered:
        while ended < len(by_end) and (by_end[ended][1].ended or 0.0) <= commit.started:
            for partition, offset in by_end[ended][1].offsets.items():
                if partition not in highest or highest[partition][1] < offset:
                    highest[partition] = (by_end[ended][1].started, offset, by_end[ended][0])
            ended += 1
        for partition, offset in commit.offsets.items():
            _, before, by = highest.get(partition, (0.0, -1, ""))
            if offset < before and not any(
                one.started < commit.started and one.offsets.get(partition, before) <= offset for one in unanswered
            ):
                yield f"partition {partition} goes back from {before} of {by} to {offset} of {name}"


def _skipped(members: list[MemberHistory]) -> Iterator[str]:
    first: dict[tuple[int, int], float] = {}
    for member in members:
        for when, partition, offset in member.processed:
            first[partition, offset] = min(when, first.get((partition, offset), when))
    checked: dict[int, int] = defaultdict(int)
    everything = sorted((one for member in members for one in member.commits), key=lambda one: one.started)
    for commit in everything:
        for partition, offset in commit.offsets.items():
            for number in range(checked[partition], offset):
                if first.get((partition, number), inf) > commit.started:
                    yield f"{partition}/{number} is below the committed {offset}, and nobody had processed it"
            checked[partition] = max(checked[partition], offset)


def _lost(members: list[MemberHistory], committed: dict[int, int]) -> Iterator[str]:
    for member in members:
        for commit in member.commits:
            for partition, offset in commit.offsets.items():
                if (
                    commit.ended is not None
                    and committed.get(partition, -1) < offset
                    and not any(
                        one.ended is None and one.offsets.get(partition) == committed.get(partition)
                        for other in members
                        for one in other.commits
                    )
                ):
                    yield f"partition {partition}: {offset} of {member.member_id} is acknowledged and not there"


Row = tuple[str, int, int]
"""Of the table: member (empty: no member's), partition, offset."""


def unlike_the_table(members: Iterable[MemberHistory], rows: Counter[Row]) -> list[str]:
    """What the answers about commits say against ``rows``, the offsets of the group that were ever committed."""
    acknowledged, in_doubt, refused = Counter[Row](), Counter[Row](), Counter[Row]()
    for member in members:
        for commit in member.commits:
            which = in_doubt if commit.ended is None else acknowledged
            which.update((member.member_id, partition, offset) for partition, offset in commit.offsets.items())
        for offsets in member.refused:
            refused.update((member.member_id, partition, offset) for partition, offset in offsets.items())
    found = [
        f"{row} was acknowledged {count} times, and stands {rows[row]} times"
        for row, count in acknowledged.items()
        if rows[row] < count
    ]
    return found + [
        f"{row} was refused {count} times, and stands: {rows[row]} times for {acknowledged[row]} acknowledgements"
        for row, count in refused.items()
        if rows[row] > acknowledged[row] + in_doubt[row]
    ]
