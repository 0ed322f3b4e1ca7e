"""Which partitions a consumer reads, and how far it is in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.bodies.chunk import Chunk
from tidelog.types.record import TopicPartition


class Progress:
    """One partition. ``chunk``: what is fetched and not handed out yet; while there is one, it has the position."""

    __slots__ = ("_position", "chunk", "high_watermark", "is_looked_up", "paused", "topic_id", "turn")

    def __init__(self, position: int | None = None, *, is_looked_up: bool = False) -> None:
        self._position = position
        self.is_looked_up = is_looked_up
        """Whether the group was asked for its committed offset."""
        self.high_watermark: int | None = None
        self.topic_id: str | None = None
        """The topic that the position belongs to; None: the next answer tells it. One made anew under the name has another."""
        self.paused = False
        self.chunk: Chunk | None = None
        self.turn = 0
        """A counter, raised by what makes a fetch under way pointless: the answer is dropped when the counter has changed."""

    @property
    def position(self) -> int | None:
        """The offset of the next record to hand out; None: to be found by the reset policy."""
        return self._position if self.chunk is None else self.chunk.position

    @property
    def fetch_position(self) -> int | None:
        """The offset to fetch next, which is behind ``chunk``."""
        return self._position

    @property
    def behind(self) -> bool:
        """Whether there is, or may be, something to fetch without waiting."""
        return self._position is not None and (self.high_watermark is None or self._position < self.high_watermark)

    def seek(self, position: int | None, topic_id: str | None = None) -> None:
        """Go on reading at ``position`` of the topic with this id, or of whatever has its name; what was fetched is dropped."""
        self._position = position
        self.topic_id = topic_id
        self.high_watermark = None
        self.chunk = None
        self.turn += 1

    def lose(self) -> None:
        """Drop the position. The id that stays tells whether the topic was made anew, when one is looked for."""
        self.seek(None, self.topic_id)

    def pause(self) -> None:
        """Hand out no more records; what is being fetched ahead is dropped."""
        self.paused = True
        self.turn += 1

    def is_of_another(self, topic_id: str | None) -> bool:
        """Return whether the position belongs to another topic than this one, as far as both are known."""
        return topic_id is not None and self.topic_id is not None and topic_id != self.topic_id

    def fetched(self, chunk: Chunk | None, next_offset: int, high_watermark: int, topic_id: str | None = None) -> None:
        """Take in an answer."""
        self.topic_id = topic_id or self.topic_id
        self.chunk = chunk
        self._position = next_offset
        self.high_watermark = high_watermark


class Assignment:
    """The partitions in the order in which they take turns."""

    def __init__(self) -> None:
        self._progress: dict[TopicPartition, Progress] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        """Every partition."""
        return iter(list(self._progress))

    def __contains__(self, place: object) -> bool:
        """Whether the partition is assigned."""
        return place in self._progress

    def __getitem__(self, place: TopicPartition) -> Progress:
        """Raises ``ValueError`` for a partition that is not assigned."""
        try:
            return self._progress[place]
        except KeyError:
            raise ValueError(f"{place.topic}/{place.partition} is not assigned to this consumer") from None

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record to hand out, of each partition where it is known."""
        found = {place: progress.position for place, progress in self._progress.items()}
        return {place: position for place, position in found.items() if position is not None}

    def topic_ids(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """The topics that the positions of these belong to, where they are assigned and a gateway has told it."""
        known = ((place, self._progress[place].topic_id) for place in places if place in self._progress)
        return {place: topic_id for place, topic_id in known if topic_id is not None}

    def replace(self, places: Iterable[TopicPartition]) -> None:
        """Assign exactly these; those that stay keep their progress."""
        self._progress = {place: self._progress.get(place, Progress()) for place in places}

    def add(self, place: TopicPartition, progress: Progress) -> None:
        """Assign one more."""
        self._progress[place] = progress

    def remove(self, places: Iterable[TopicPartition]) -> None:
        """Read these no more."""
        for place in places:
            self._progress.pop(place, None)

    def active(self) -> list[tuple[TopicPartition, Progress]]:
        """Those that are not paused, in turn."""
        return [(place, progress) for place, progress in self._progress.items() if not progress.paused]

    def paused(self) -> set[TopicPartition]:
        """Those that are."""
        return {place for place, progress in self._progress.items() if progress.paused}

    def finish(self, place: TopicPartition) -> None:
        """The partition's chunk is handed out: other partitions come first now."""
        self._progress[place].chunk = None
        self.had_turn(place)

    def had_turn(self, place: TopicPartition) -> None:
        """To the end of the line."""
        self._progress[place] = self._progress.pop(place)
