"""Topics that members subscribe to: by name, existing or not, or by a pattern that the whole name must match.

A pattern sees only topics that the member's caller may read, and follows its rights with each look.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.access.caller import ANONYMOUS, Caller
from gateway.access.rights import Rights
from gateway.engine.administration import Administration
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import Pool
from gateway.groups.assignment.next_row import Subscriptions
from gateway.groups.bounds import CACHED_MATCHES_MAX, PARALLEL_LOOKUPS_MAX
from gateway.groups.subscription.topic_pattern import compile_pattern, match_names
from gateway.problem import refused
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.errors import CorruptData
from log_format.groups.row import MemberRow
from log_format.topic_name import is_topic_name

_log = logging.getLogger("gateway.groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopics:
    """The existing topics among those that some members ask for."""

    counts: Mapping[str, int]
    """Number of partitions of each topic."""
    matches: Mapping[str, Sequence[str]]
    """Names that match each pattern."""
    rights: Rights

    def subscriptions(self, members: Iterable[MemberRow]) -> Subscriptions:
        """Return the topics that these members subscribe to."""
        topics = {
            one.member_id: frozenset(name for name in self._wanted(one) if name in self.counts) for one in members
        }
        used = {name for some in topics.values() for name in some}
        return Subscriptions(topics=topics, counts={name: self.counts[name] for name in sorted(used)})

    def differ(self, members: Iterable[MemberRow], known: Subscriptions) -> bool:
        """Return whether these members' topics or partitions have changed. Cheap: it is called for all groups again and again."""
        if any(self.counts.get(name) != count for name, count in known.counts.items()):
            return True
        if self.rights.enforced:
            members = list(members)
            return self.subscriptions(members).topics != known.topics
        return any(name in self.counts and name not in known.counts for one in members for name in self._wanted(one))

    def _wanted(self, member: MemberRow) -> Iterable[str]:
        """Return the names that a member asks for. Raises ``BackOff`` if it is not known what the member's caller may read."""
        if member.pattern is None:
            return member.topics
        names = self.matches.get(member.pattern, ())
        if member.topics:
            return {*member.topics, *self._readable(member, names)}
        return self._readable(member, names)

    def _readable(self, member: MemberRow, names: Iterable[str]) -> Iterable[str]:
        if not self.rights.enforced:
            return names
        caller = ANONYMOUS if member.reader is None else Caller(member.reader.principal, member.reader.groups)
        return filter(self.rights.allowed_filter(caller, "Read", "topic"), names)


class SubscribedTopics:
    """Finder of the topics that members subscribe to. Used on the event loop only."""

    def __init__(
        self, topics: OpenTopics, administration: Administration, *, rights: Rights, clock: Clock, pool: Pool
    ) -> None:
        self._rights = rights
        self._topics = topics
        self._administration = administration
        self._clock = clock
        self._pool = pool
        self._names: Sequence[str] = ()
        self._matches: OrderedDict[str, Sequence[str]] = OrderedDict()
        """Matches of patterns among ``_names``, least recently used first."""
        self._matches_size = 0

    async def check(self, pattern: str) -> None:
        """Raise ``RequestRefused`` for an invalid pattern, or one that costs too much."""
        try:
            await self._pool.run(compile_pattern, pattern)
        except ValueError as problem:
            raise refused(f"topic_pattern {problem}.", [("/topic_pattern", str(problem))]) from None

    async def resolve(self, members: Sequence[MemberRow]) -> Subscriptions:
        """Return the topics that these members subscribe to, as of now. Raises ``BackOff``."""
        return (await self.look([members])).subscriptions(members)

    async def look(self, groups: Iterable[Sequence[MemberRow]]) -> SeenTopics:
        """Return the topics that members of these groups ask for, each looked at once. Raises ``BackOff``."""
        arrival_ms = self._clock.monotonic_ms()
        patterns: set[str] = set()
        wanted: set[str] = set()
        for members in groups:
            for member in members:
                wanted.update(member.topics)
                if member.pattern is not None:
                    patterns.add(member.pattern)
        names: Sequence[str] = await self._administration.names() if patterns else self._names
        if names != self._names:
            self._names, self._matches_size = names, 0
            self._matches.clear()
        names = self._names
        matches = {pattern: await self._matching(pattern, names) for pattern in sorted(patterns)}
        wanted.update(name for found in matches.values() for name in found)
        return SeenTopics(counts=await self._counts(wanted, arrival_ms), matches=matches, rights=self._rights)

    async def _counts(self, names: Iterable[str], arrival_ms: int) -> Mapping[str, int]:
        counts: dict[str, int] = {}

        async def look(name: str) -> None:
            try:
                state = (await self._topics.fresh(name, arrival_ms)).state
            except CorruptData as problem:
                _log.error("topic %s is given to no group: %s", name, problem.detail)
                return
            if state.exists:
                counts[name] = state.partition_count

        await run_parallel(look, sorted(filter(is_topic_name, names)), limit=PARALLEL_LOOKUPS_MAX)
        return counts

    async def _matching(self, pattern: str, names: Sequence[str]) -> Sequence[str]:
        """Return the names that the pattern matches. They are remembered while the names are the same: groups are looked at again
        and again."""
        known = self._matches.get(pattern)
        if known is not None:
            self._matches.move_to_end(pattern)
            return known
        try:
            found = await self._pool.run(match_names, pattern, names, self._clock)
        except ValueError as problem:
            _log.warning("a pattern that can't be used matches nothing: %r %s", pattern[:200], problem)
            found = []
        if found is None:
            _log.warning("a pattern takes too long to be matched and so matches nothing: %r", pattern[:200])
            found = []
        if names is self._names and pattern not in self._matches:
            self._matches[pattern] = found
            self._matches_size += 1 + len(found)
            while self._matches_size > CACHED_MATCHES_MAX:
                _, forgotten = self._matches.popitem(last=False)
                self._matches_size -= 1 + len(forgotten)
        return found
