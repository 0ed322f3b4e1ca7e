"""The judge of histories with journals: as ``Judge``, and the rules of journals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_modes.truth import JournalTruth, TopicTruth
from tests.simulation.simulated_service.judge import Judge
from tests.simulation.simulated_service.network import Reply


class ModesJudge(Judge):
    """``get_of_journal`` reads an object of a journal's table."""

    def __init__(self, get: Callable[[str, str], bytes], get_of_journal: Callable[[int, str], bytes]) -> None:
        super().__init__(get)
        self._get_of_journal = get_of_journal
        self.topics: dict[str, TopicTruth] = {}
        self.journals: dict[int, JournalTruth] = {}
        self._is_decided = False

    def truth(self, topic: str) -> TopicTruth:
        """The truth about one topic."""
        if topic not in self.topics:
            self.topics[topic] = TopicTruth(topic, lambda path: self._get(topic, path))
            self.truths[topic] = self.topics[topic]
        return self.topics[topic]

    def landed_in_journal(self, number: int, version: int, data: bytes, now_ms: int) -> None:
        """A commit of a journal appeared in the store."""
        if number not in self.journals:
            get = self._get_of_journal
            self.journals[number] = JournalTruth(number, self.topics, lambda path: get(number, path))
        self.journals[number].landed(version, data, now_ms)

    def acknowledged(
        self,
        producer: str,
        topic: str,
        sent: dict[int, list[bytes]],
        body: Any,
        during: tuple[int, int] | None = None,
    ) -> None:
        """As ``Judge``; and no record is above what the topic allowed when it got its offset."""
        super().acknowledged(producer, topic, sent, body, during)
        for value in (value for held in sent.values() for value in held):
            limit = self.truth(topic).limits[value]
            if not self._is_decided and len(value) > limit:
                raise Violation(f"{value!r} was appended to {topic}, which allows {limit} bytes")

    def committed(self, name: str, sent: dict[str, dict[int, list[bytes]]], body: Any) -> None:
        """As ``Judge``. What a transaction has is checked when it is staged."""
        self._is_decided = True
        super().committed(name, sent, body)
        self._is_decided = False

    def refused(self, values: Sequence[bytes], reply: Reply) -> None:
        """As ``Judge``; and where no topic was deleted, each remembers its producers wherever it goes (G5)."""
        super().refused(values, reply)
        if reply.error_code == "SEQUENCE_OUT_OF_ORDER" and not any(map(self._was_deleted, self.topics)):
            raise Violation(f"a producer that numbers its requests one after the other got {reply}")

    @property
    def is_drained(self) -> bool:
        """Whether the topics' own tables have everything."""
        return all(topic.head.next_offsets == topic.own.head.next_offsets for topic in self.topics.values())

    def end(self) -> None:
        """As ``Judge``; and after the drains the topics' own tables have everything."""
        super().end()
        for name, topic in self.topics.items():
            if topic.head.next_offsets != topic.own.head.next_offsets:
                raise Violation(f"{name} ends at {topic.head.next_offsets}, its table at {topic.own.head.next_offsets}")
            lost = [place for place in topic.values if self._is_there(topic, place) and place not in topic.own.values]
            if lost:
                raise Violation(f"the table of {name} lacks {lost}")
            self.told["by a journal"] += topic.by_journal
        self.told["closed"] += sum(journal.closes for journal in self.journals.values())

    def _is_there(self, topic: TopicTruth, place: tuple[str, int, int]) -> bool:
        return place[0] == topic.head.topic_id
