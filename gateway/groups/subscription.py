"""What members subscribe to: topics by name, whether they exist yet or not, or by a pattern that the whole name must match.

A pattern is Python's, and comes from a client: matching is bounded in time, in a thread that lets the others run.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import regex

from gateway.engine.administration import Administration
from gateway.engine.pool import Pool
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.groups.bounds import LOOKS_AT_ONCE, PATTERN_MS_MAX
from gateway.groups.regrouping import Subscriptions
from log_format.clock import Clock
from log_format.errors import CorruptData
from log_format.group_row import MemberRow

_log = logging.getLogger("gateway.groups")


def check_pattern(pattern: str) -> str | None:
    """What is wrong with a pattern; None: nothing."""
    try:
        re.compile(pattern)
        regex.compile(pattern)
    except (re.error, regex.error, OverflowError, RecursionError) as problem:
        return f"is no regular expression: {problem}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopics:
    """The topics that there are, of those that some members asked for."""

    counts: Mapping[str, int]
    """How many partitions each has."""
    matches: Mapping[str, Sequence[str]]
    """The names that match each pattern."""

    def subscriptions(self, members: Iterable[MemberRow]) -> Subscriptions:
        """What these members subscribe to."""
        topics = {
            one.member_id: frozenset(name for name in self._wanted(one) if name in self.counts) for one in members
        }
        used = {name for some in topics.values() for name in some}
        return Subscriptions(topics=topics, counts={name: self.counts[name] for name in sorted(used)})

    def differ(self, members: Iterable[MemberRow], known: Subscriptions) -> bool:
        """Whether these members' topics or partitions are others now. Cheap: it is asked of all groups again and again."""
        if any(self.counts.get(name) != count for name, count in known.counts.items()):
            return True
        return any(name in self.counts and name not in known.counts for one in members for name in self._wanted(one))

    def _wanted(self, member: MemberRow) -> Iterable[str]:
        return member.topics if member.pattern is None else self.matches.get(member.pattern, ())


class SubscribedTopics:
    """Belongs to the event loop."""

    def __init__(self, topics: TopicRegistry, administration: Administration, *, clock: Clock, pool: Pool) -> None:
        self._topics = topics
        self._administration = administration
        self._clock = clock
        self._pool = pool

    async def resolve(self, members: Sequence[MemberRow]) -> Subscriptions:
        """What these members subscribe to, as it is now. Raises ``BackOff``."""
        return (await self.look([members])).subscriptions(members)

    async def look(self, groups: Iterable[Sequence[MemberRow]]) -> SeenTopics:
        """The topics that members of these groups ask for, each looked at once. Raises ``BackOff``."""
        arrival_ms = self._clock.monotonic_ms()
        patterns: set[str] = set()
        wanted: set[str] = set()
        for members in groups:
            for member in members:
                if member.pattern is None:
                    wanted.update(member.topics)
                else:
                    patterns.add(member.pattern)
        names = await self._administration.names() if patterns else []
        matches = {pattern: await self._matching(pattern, names) for pattern in sorted(patterns)}
        wanted.update(name for found in matches.values() for name in found)
        return SeenTopics(counts=await self._counts(wanted, arrival_ms), matches=matches)

    async def _counts(self, names: Iterable[str], arrival_ms: int) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        turns = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(name: str) -> None:
            async with turns:
                try:
                    state = (await self._topics.fresh(name, arrival_ms)).state
                except CorruptData as problem:
                    _log.error("topic %s is given to no group: %s", name, problem.detail)
                    return
            if state.exists:
                counts[name] = state.partition_count

        await asyncio.gather(*(look(name) for name in sorted(names) if is_topic_name(name)))
        return counts

    async def _matching(self, pattern: str, names: Sequence[str]) -> list[str]:
        return await self._pool.run(_matching, pattern, names, self._clock)


def _matching(pattern: str, names: Sequence[str], clock: Clock) -> list[str]:
    compiled = regex.compile(pattern)
    deadline_ms = clock.monotonic_ms() + PATTERN_MS_MAX

    def matches(name: str) -> bool:
        left_ms = max(1, deadline_ms - clock.monotonic_ms())
        return compiled.fullmatch(name, timeout=left_ms / 1000, concurrent=True) is not None

    try:
        return [name for name in names if matches(name)]
    except TimeoutError:
        _log.warning("a pattern takes too long to be matched and so matches nothing: %r", pattern[:200])
        return []
