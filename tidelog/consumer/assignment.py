"""A consumer's assigned partitions, and its progress in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.bodies.chunk import Chunk
from tidelog.types.record import TopicPartition


class Progress:
    """Progress in one partition. ``chunk``: records fetched and not handed out yet; while there is one, the position is the
    chunk's."""

    __slots__ = ("_position", "chunk", "high_watermark", "is_looked_up", "paused", "topic_id", "turn")

    def __init__(self, position: int | None = None, *, is_looked_up: bool = False) -> None:
        self._position = position
        self.is_looked_up = is_looked_up
        """Whether the group was asked for its committed offset of this partition."""
        self.high_watermark: int | None = None
        self.topic_id: str | None = None
        """Id of the topic to which the position belongs; None until the next answer. A topic recreated under the name has
        another."""
        self.paused = False
        self.chunk: Chunk | None = None
        self.turn = 0
        """Counter of seeks and pauses: a fetch's answer is dropped if the counter changed meanwhile."""

    @property
    def position(self) -> int | None:
        """Offset of the next record to hand out; None: the reset policy decides."""
        return self._position if self.chunk is None else self.chunk.position

    @property
    def fetch_position(self) -> int | None:
        """Offset to fetch next, behind ``chunk``."""
        return self._position

    @property
    def behind(self) -> bool:
        """Whether there are, or may be, records to fetch without waiting."""
        return self._position is not None and (self.high_watermark is None or self._position < self.high_watermark)

    def seek(self, position: int | None, topic_id: str | None = None) -> None:
        """Set the position, in the topic with this id (None: in whichever topic has the name), and drop fetched records."""
        self._position = position
        self.topic_id = topic_id
        self.high_watermark = None
        self.chunk = None
        self.turn += 1

    def reset_position(self) -> None:
        """Drop the position. The topic id stays, to detect a recreated topic when a new position is determined."""
        self.seek(None, self.topic_id)

    def pause(self) -> None:
        """Stop handing out records, and drop the fetch-ahead."""
        self.paused = True
        self.turn += 1

    def belongs_to_another(self, topic_id: str | None) -> bool:
        """Return whether the position belongs to another topic than ``topic_id``; False if either is unknown."""
        return topic_id is not None and self.topic_id is not None and topic_id != self.topic_id

    def fetched(self, chunk: Chunk | None, next_offset: int, high_watermark: int, topic_id: str | None = None) -> None:
        """Store a fetched answer."""
        self.topic_id = topic_id or self.topic_id
        self.chunk = chunk
        self._position = next_offset
        self.high_watermark = high_watermark


class Assignment:
    """Assigned partitions, in the order in which they are read."""

    def __init__(self) -> None:
        self._progress: dict[TopicPartition, Progress] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        """Iterate over all partitions."""
        return iter(list(self._progress))

    def __contains__(self, place: object) -> bool:
        """Return whether the partition is assigned."""
        return place in self._progress

    def __getitem__(self, place: TopicPartition) -> Progress:
        """Return the partition's progress. Raises ``ValueError`` if it is not assigned."""
        try:
            return self._progress[place]
        except KeyError:
            raise ValueError(f"{place.topic}/{place.partition} is not assigned to this consumer") from None

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offset of the next record to hand out, for each partition with a known position."""
        found = {place: progress.position for place, progress in self._progress.items()}
        return {place: position for place, position in found.items() if position is not None}

    def topic_ids(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the ids of the topics to which the positions belong, for assigned partitions whose id is known."""
        known = ((place, self._progress[place].topic_id) for place in places if place in self._progress)
        return {place: topic_id for place, topic_id in known if topic_id is not None}

    def replace(self, places: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions; partitions that stay keep their progress."""
        self._progress = {place: self._progress.get(place, Progress()) for place in places}

    def add(self, place: TopicPartition, progress: Progress) -> None:
        """Assign one more partition."""
        self._progress[place] = progress

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Unassign these partitions."""
        for place in places:
            self._progress.pop(place, None)

    def active(self) -> list[tuple[TopicPartition, Progress]]:
        """Return the partitions that are not paused, in reading order."""
        return [(place, progress) for place, progress in self._progress.items() if not progress.paused]

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {place for place, progress in self._progress.items() if progress.paused}

    def finish(self, place: TopicPartition) -> None:
        """Drop the partition's chunk, which is handed out, and let other partitions come first."""
        self._progress[place].chunk = None
        self.move_to_end(place)

    def move_to_end(self, place: TopicPartition) -> None:
        """Move the partition to the end of the reading order."""
        self._progress[place] = self._progress.pop(place)
