"""The judge of a topic that is deleted and made anew while clients work. Pure: a history goes in, contradictions come out.

An *incarnation* is named by its topic id. Readers that name the id, the SDK's consumers and members of groups are promised:

1. A place (incarnation, partition, offset) has one value. A value is in one place, unless its request was repeated across a
   re-creation.
2. A value is in an incarnation that was there while it was written; where the writer named an id, in that one.
3. A reader gets the records of an incarnation from the first one on, none skipped, doubled or out of order. It never goes back
   to an earlier incarnation, and what it is told was there while it asked.
4. A group skips no record of an incarnation, whatever it had committed for an earlier one. A committed offset is one of the
   present incarnation.
5. What was acknowledged is there, for readers that ask later and in the end.
6. The topic is missing only between a deletion and the creation that follows it.

librdkafka's own consumers keep positions by name: of these only places are judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from tests.torture.tortured.history import Write
from tests.torture.tortured.renewed_history import Life, RenewedHistory, Seen, gaps_of

Log = Mapping[int, Sequence[str]]
"""Of the last incarnation: the values of each partition."""
REPEATED = ("idempotent request", "Kafka: record")
"""Kinds of writes whose request may be sent again, and so reach a second incarnation."""


class Judge:
    """Collects every contradiction. ``log``: of the last incarnation, in the end."""

    def __init__(self, history: RenewedHistory, writes: Sequence[Write], log: Log) -> None:
        self._history = history
        self._log = log
        self._lives = {life.topic_id: (number, life) for number, life in enumerate(history.lives)}
        self._last = history.lives[-1]
        self._writes = {value: write for write in writes for value in _flat(write)}
        self._all_writes = writes
        self._at: dict[tuple[str, int, int], str] = {}
        self._of: dict[str, set[tuple[str, int, int]]] = defaultdict(set)
        self._found: list[str] = []

    def contradictions(self) -> list[str]:
        """What is wrong, in words."""
        self._places()
        for part in (
            self._values(),
            self._acknowledged(),
            self._order(),
            self._positions(),
            self._read_your_writes(),
            self._runs(),
            self._groups(),
            self._missing(),
            self._offsets(),
        ):
            self._found += part
        return self._found

    def _places(self) -> None:
        for seen in self._history.seen:
            for offset, value in zip(seen.offsets, seen.values, strict=True):
                self._note(seen.topic_id, seen.partition, offset, value, seen.reader)
        for partition, values in self._log.items():
            for offset, value in enumerate(values):
                self._note(self._last.topic_id, partition, offset, value, "the log in the end")
        for write in self._all_writes:
            topic_id = self._exactly(write)
            for place in write.places if topic_id else ():
                for number, value in enumerate(place.values):
                    self._note(topic_id, place.partition, place.base_offset + number, value, write.client)

    def _note(self, topic_id: str, partition: int, offset: int, value: str, who: str) -> None:
        place = (topic_id, partition, offset)
        other = self._at.setdefault(place, value)
        if other != value:
            self._found.append(f"{who} has {value} at {place}, where {other} is")
        self._of[value].add(place)

    def _exactly(self, write: Write) -> str:
        """The id of the incarnation in which an acknowledged write is, where that is known without reading; else empty."""
        if write.outcome != "acknowledged":
            return ""
        if write.meant:
            return write.meant
        around = self._candidates(write)
        return around[0].topic_id if len(around) == 1 and around[0].is_there(write.started, write.ended) else ""

    def _candidates(self, write: Write) -> list[Life]:
        until = write.ended if write.outcome == "acknowledged" else inf
        return [life for life in self._history.lives if life.may_be_there(write.started, until)]

    def _values(self) -> Iterator[str]:
        for value, places in self._of.items():
            write = self._writes.get(value)
            if write is None:
                yield f"{value} at {sorted(places)} was sent by nobody"
                continue
            if write.outcome in {"refused", "aborted"}:
                yield f"{value} of {write.client} was {write.outcome} ({write.why}) and is at {sorted(places)}"
            ids = {place[0] for place in places}
            if len(places) > (len(ids) if _may_be_twice(write) else 1):
                yield f"{value} of {write.client} is in several places: {sorted(places)}"
            for topic_id in ids & self._lives.keys():
                _, life = self._lives[topic_id]
                if life not in self._candidates(write):
                    yield f"{value} of {write.client} is in {topic_id}, which was not there when it was written"
                if write.meant and topic_id != write.meant:
                    yield f"{value} of {write.client} was meant for {write.meant} and is in {topic_id}"

    def _acknowledged(self) -> Iterator[str]:
        there = {value for values in self._log.values() for value in values}
        for write in self._all_writes:
            sent = _flat(write)
            if write.outcome == "acknowledged" and self._exactly(write) == self._last.topic_id:
                yield from (f"{v} of {write.client} was acknowledged and is not there" for v in sent if v not in there)
            if write.atomic and 0 < len(there.intersection(sent)) < len(sent):
                yield f"of {write.client}'s {sent} only {sorted(there.intersection(sent))} is there"

    def _order(self) -> Iterator[str]:
        last: dict[tuple[str, str, int], int] = {}
        for write in sorted(self._all_writes, key=lambda one: one.started):
            topic_id = self._exactly(write)
            for place in write.places if topic_id else ():
                line = (write.client, topic_id, place.partition)
                if place.base_offset <= last.get(line, -1):
                    yield f"{place.values[0]} of {write.client} stands before what it wrote earlier"
                last[line] = place.base_offset + len(place.values) - 1

    def _positions(self) -> Iterator[str]:
        """Of readers that keep an offset and the id that it belongs to."""
        at: dict[tuple[str, int], tuple[int, str]] = {}
        for seen in self._history.seen:
            whose = f"{seen.reader}, partition {seen.partition}, of {seen.topic_id}"
            yield from self._lives_at(seen, whose)
            if seen.asked is None:
                continue
            offset, asked_id = seen.asked
            line = (seen.reader, seen.partition)
            if line in at and at[line] != seen.asked:
                yield f"{whose}: asked for {seen.asked} after {at[line]}"
            begins = offset if asked_id in ("", seen.topic_id) else 0
            if seen.offsets != list(range(begins, begins + len(seen.offsets))):
                yield f"{whose}: asked for {offset} of {asked_id}, and got offsets {seen.offsets}"
            if seen.next_offset != begins + len(seen.offsets):
                yield f"{whose}: asked for {offset} of {asked_id}, and goes on at {seen.next_offset}"
            if self._number(seen.topic_id) < self._number(asked_id):
                yield f"{whose}: after {asked_id}, which came later"
            at[line] = (seen.next_offset, seen.topic_id)

    def _lives_at(self, seen: Seen, whose: str) -> Iterator[str]:
        if seen.topic_id not in self._lives:
            if not self._history.doubts:
                yield f"{whose}: nobody made that topic"
        elif not self._lives[seen.topic_id][1].may_be_there(seen.started, seen.ended):
            yield f"{whose}: it was not there"

    def _number(self, topic_id: str) -> int:
        return self._lives[topic_id][0] if topic_id in self._lives else -1

    def _read_your_writes(self) -> Iterator[str]:
        ends: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        for write in self._all_writes:
            topic_id = self._exactly(write)
            for place in write.places if topic_id else ():
                ends[topic_id, place.partition].append((write.ended, place.base_offset + len(place.values)))
        by_line: dict[tuple[str, int], list[Seen]] = defaultdict(list)
        for seen in self._history.seen:
            by_line[seen.topic_id, seen.partition].append(seen)
        for line, some in by_line.items():
            known, index, least = sorted(ends[line]), 0, 0
            for seen in sorted(some, key=lambda one: one.started):
                while index < len(known) and known[index][0] < seen.started:
                    least = max(least, known[index][1])
                    index += 1
                if seen.high_watermark < least:
                    yield f"{seen.reader} was told that {line} ends at {seen.high_watermark}; {least} was acknowledged"

    def _ids(self, value: str) -> set[str]:
        """The incarnations in which a value may be. One that was sent again may be in others than those where it was seen."""
        places, write = self._of.get(value), self._writes.get(value)
        if places and (write is None or not _may_be_twice(write)):
            return {place[0] for place in places}
        return set(self._lives) if write is None else {life.topic_id for life in self._candidates(write)}

    def _runs(self) -> Iterator[str]:
        """Of the SDK's consumers without a group: a run of offsets from 0 on for each incarnation."""
        at: dict[tuple[str, int], tuple[int, set[str]]] = {}
        for handed in self._history.handed:
            for partition, offset, value in handed.records:
                yield from self._placed(handed.reader, partition, offset, value)
                if handed.group or not handed.keeps:
                    continue
                line, ids = (handed.reader, partition), self._ids(value)
                following, now = at.get(line, (None, set[str]()))
                if following is None and handed.from_latest:
                    following, now = offset, ids
                if offset == following and now & ids:
                    ids = now & ids
                elif offset != 0:
                    yield f"{handed.reader} went from {following} to {offset} ({value}) in partition {partition}"
                elif now and max(map(self._number, ids)) <= min(map(self._number, now)):
                    yield f"{handed.reader} began an incarnation again with {value} in partition {partition}"
                at[line] = (offset + 1, ids)

    def _placed(self, reader: str, partition: int, offset: int, value: str) -> Iterator[str]:
        ids = self._ids(value)
        if value not in self._writes:
            yield f"{reader} got {value}, which was sent by nobody"
        elif len(ids) == 1:
            (topic_id,) = ids
            other = self._at.get((topic_id, partition, offset), value)
            if other != value or (self._of.get(value) and (topic_id, partition, offset) not in self._of[value]):
                yield f"{reader} got {value} at {partition}/{offset} of {topic_id}, where {other} is"

    def _groups(self) -> Iterator[str]:
        """What is handed out to a group's members has nothing before it that was not."""
        events = [
            (one.ended, one.group, one.reader, one.partition, offset, {one.topic_id}, value)
            for one in self._history.seen
            if one.group
            for offset, value in zip(one.offsets, one.values, strict=True)
        ]
        events += [
            (one.ended, one.group, one.reader, partition, offset, self._ids(value), value)
            for one in self._history.handed
            if one.group and one.keeps
            for partition, offset, value in one.records
        ]
        done: dict[tuple[str, str, int], _Progress] = defaultdict(_Progress)
        for _, group, reader, partition, offset, ids, value in sorted(events, key=lambda one: one[0]):
            lines = [done[group, topic_id, partition] for topic_id in ids]
            if len(lines) == 1 and offset > lines[0].following:
                yield f"{group}: {reader} got {value} at {partition}/{offset}, and nobody {lines[0].following} before"
            for line in lines:
                line.note(offset)

    def _missing(self) -> Iterator[str]:
        gaps = gaps_of(self._history.lives)
        for one in self._history.missing:
            if not any(begin <= one.ended and one.started <= end for begin, end in gaps):
                yield f"{one.client} was told at {one.started:.2f} that there is no topic, and nobody had deleted it"

    def _offsets(self) -> Iterator[str]:
        """A group has offsets of the present incarnation only, and those that were acknowledged."""
        meant = {(one.group, one.offset): one for one in self._history.committed}
        in_doubt = {(one.group, one.topic_id) for one in self._history.committed if one.outcome == "unknown"}
        for look in self._history.looked:
            one = None if look.offset is None else meant.get((look.group, look.offset))
            if look.offset is not None and one is None:
                yield f"{look.group} has the offset {look.offset}, which nobody committed"
            if one is not None:
                if one.outcome == "refused":
                    yield f"{look.group} has the offset {look.offset}, which was refused"
                if not self._lives[one.topic_id][1].may_be_there(look.started, look.ended):
                    yield f"{look.group} has the offset {look.offset} of {one.topic_id}, which was not there"
            around = [life for life in self._history.lives if life.is_there(look.started, look.ended)]
            if len(around) != 1 or (look.group, around[0].topic_id) in in_doubt:
                continue
            before = [
                each.offset
                for each in self._history.committed
                if (each.group, each.topic_id, each.outcome) == (look.group, around[0].topic_id, "yes")
                and each.ended < look.started
            ]
            if before and look.offset != max(before):
                yield f"{look.group} has the offset {look.offset}, and {max(before)} was acknowledged"


class _Progress:
    """Which offsets of a partition were handed out: all below ``following``, and some above."""

    def __init__(self) -> None:
        self.following = 0
        self._above: set[int] = set()

    def note(self, offset: int) -> None:
        """One more."""
        self._above.add(offset)
        while self.following in self._above:
            self._above.remove(self.following)
            self.following += 1


def left_behind(history: RenewedHistory, log: Log, readers: Iterable[str]) -> list[str]:
    """Which readers and groups have not come to the end of the last incarnation."""
    last = history.lives[-1].topic_id
    wanted = {(partition, values[-1]) for partition, values in log.items() if values}
    got: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for seen in history.seen:
        if seen.topic_id == last:
            got[seen.group or seen.reader].update((seen.partition, value) for value in seen.values)
    for handed in history.handed:
        got[handed.group or handed.reader].update((partition, value) for partition, _, value in handed.records)
    return [f"{name} did not come to the end, {wanted - got[name]}" for name in readers if wanted - got[name]]


def _may_be_twice(write: Write) -> bool:
    """Whether its request may have reached two incarnations. librdkafka, and a gateway that passes one on, send it again by
    themselves."""
    return write.kind in REPEATED


def _flat(write: Write) -> list[str]:
    return [value for held in write.values.values() for values in held.values() for value in values]
