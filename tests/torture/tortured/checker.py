"""Judges a history by the final log: the oracle of any log (G1 to G6, G8).

No acknowledged record is missing, and no value is there twice. Every place names one value for all its readers. No poll skips
or goes back; a poll sees what was acknowledged before it began. One producer's records keep their order. A transaction is there
whole or not at all. Nothing that was refused or aborted ever appears, nor anything that no producer sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.torture.tortured.history import History, Write

Log = dict[tuple[str, int], list[str]]
"""Topic and partition -> the values from offset 0 on."""

SHOWN_MAX = 20


class Checker:
    """Collects every contradiction, rather than stop at the first."""

    def __init__(self, history: History, log: Log) -> None:
        self._history = history
        self._log = log
        self._found: list[str] = []
        self._at: dict[str, tuple[str, int, int]] = {}

    def contradictions(self) -> list[str]:
        """What is wrong, in words; empty when nothing is. At most ``SHOWN_MAX`` of them."""
        self._index()
        self._writes()
        self._nobody_elses()
        self._order()
        self._reads()
        self._read_your_writes()
        return self._found[:SHOWN_MAX]

    def _index(self) -> None:
        for (topic, partition), values in self._log.items():
            for offset, value in enumerate(values):
                place = (topic, partition, offset)
                if value in self._at:
                    self._found.append(f"{value} is in the log twice: at {self._at[value]} and {place}")
                self._at[value] = place

    def _writes(self) -> None:
        for write in self._history.writes:
            sent = _flat(write)
            present = [value for value in sent if value in self._at]
            if write.outcome == "acknowledged":
                self._acknowledged(write)
            elif write.outcome in {"refused", "aborted"} and present:
                self._found.append(
                    f"{present[0]} of {write.client} was {write.outcome} ({write.why}) and is in the log"
                )
            elif len(present) not in {0, len(sent)}:
                self._found.append(
                    f"of {write.client}'s {sent}, whose outcome is unknown, only {present} is in the log"
                )

    def _acknowledged(self, write: Write) -> None:
        told = {
            value: (p.topic, p.partition, p.base_offset + i) for p in write.places for i, value in enumerate(p.values)
        }
        for value in _flat(write):
            if value not in self._at:
                self._found.append(
                    f"{value} of {write.client} was acknowledged at {told.get(value)} and is not in the log"
                )
            elif write.is_placed and told.get(value) != self._at[value]:
                self._found.append(f"{value} was acknowledged at {told.get(value)} and is at {self._at[value]}")

    def _nobody_elses(self) -> None:
        sent = {value for write in self._history.writes for value in _flat(write)}
        for value, place in self._at.items():
            if value not in sent:
                self._found.append(f"{value} at {place} was sent by nobody")

    def _order(self) -> None:
        # A client waits for the outcome of each write, so what it wrote earlier may not stand behind what it wrote later.
        last: dict[tuple[str, str, int], tuple[int, str]] = defaultdict(lambda: (-1, ""))
        for write in sorted(self._history.writes, key=lambda write: write.started):
            if write.outcome != "acknowledged":
                continue
            for topic, by_partition in write.values.items():
                for partition, values in by_partition.items():
                    for value in values:
                        line, offset = (write.client, topic, partition), self._at.get(value, ("", 0, -2))[2]
                        if -1 < offset <= last[line][0]:
                            self._found.append(f"{value} of {write.client} stands before {last[line][1]}")
                        last[line] = max(last[line], (offset, value))

    def _reads(self) -> None:
        position: dict[tuple[str, str, int], int] = {}
        for read in self._history.reads:
            line = (read.client, read.topic, read.partition)
            log = self._log[read.topic, read.partition]
            expected = list(range(read.offset, read.offset + len(read.values)))
            if read.offset != position.get(line, read.offset):
                self._found.append(f"{read.client} went from {position[line]} to {read.offset}")
            if read.offsets != expected or read.next_offset != read.offset + len(read.values):
                self._found.append(f"{read.client} at {line} got offsets {read.offsets}, then {read.next_offset}")
            if read.values != log[read.offset : read.next_offset]:
                self._found.append(f"{read.client} read other values at {line} from {read.offset} than there are")
            if read.high_watermark > len(log):
                self._found.append(f"{read.client} was told that {line} ends at {read.high_watermark}, not {len(log)}")
            position[line] = read.next_offset

    def _read_your_writes(self) -> None:
        ends: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
        for write in self._history.writes:
            for place in write.places:
                ends[place.topic, place.partition].append((write.ended, place.base_offset + len(place.values)))
        for known in ends.values():
            known.sort()
        for (topic, partition), known in ends.items():
            index, least = 0, 0
            reads = [read for read in self._history.reads if (read.topic, read.partition) == (topic, partition)]
            for read in sorted(reads, key=lambda read: read.started):
                while index < len(known) and known[index][0] < read.started:
                    least = max(least, known[index][1])
                    index += 1
                if read.high_watermark < least:
                    self._found.append(
                        f"{read.client} was told that {topic}/{partition} ends at {read.high_watermark}, "
                        f"{least} was acknowledged before it asked"
                    )


def summary(history: History, log: Log) -> dict[str, int]:
    """What happened, by name."""
    counts: Counter[str] = Counter()
    for write in history.writes:
        counts[f"{write.kind}: {write.outcome}"] += 1
        counts["requests repeated"] += write.attempts - 1
        counts["answered as duplicates"] += write.duplicate
    for fault in history.faults:
        counts[f"fault: {fault.what}"] += 1
    counts["polls"] = len(history.reads)
    counts["records read by polls"] = sum(len(read.values) for read in history.reads)
    counts["records in the log"] = sum(len(values) for values in log.values())
    return dict(sorted(counts.items()))


def _flat(write: Write) -> list[str]:
    return [value for by_partition in write.values.values() for values in by_partition.values() for value in values]
