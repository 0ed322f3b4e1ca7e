"""Java's consumers, whose group goes over to ``group.protocol=consumer`` and back while it reads (KIP-848)."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.kafka_clients.tried.programs import Running, expect, expect_in, java, run, tool, until

TOPIC: Final = "tool.migration"
PARTITIONS: Final = 4
RECORDS: Final = 300
"""Of each round."""
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer."


class _Member:
    """A program, and what it has written."""

    def __init__(self, servers: str, log: Path, protocol: str, assignor: str) -> None:
        of = ("--bootstrap-server", servers, "--topic", TOPIC, "--group-id", assignor, "--reset-policy", "earliest")
        more = ("--assignment-strategy", _ASSIGNORS + assignor) if protocol == "classic" else ()
        command = java("org.apache.kafka.tools.VerifiableConsumer", *of, "--group-protocol", protocol, *more)
        self.running = Running(command, log)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.running.log.read_text().splitlines() if line.endswith("}")]

    @property
    def partitions(self) -> set[int]:
        found: set[int] = set()
        for one in self.events:
            named = {part["partition"] for part in one.get("partitions", ())}
            if one["name"] == "partitions_assigned":
                found |= named
            elif one["name"] == "partitions_revoked":
                found -= named
        return found

    @property
    def handled(self) -> Counter[tuple[int, int]]:
        parts = [part for one in self.events if one["name"] == "records_consumed" for part in one["partitions"]]
        return Counter(
            (part["partition"], offset) for part in parts for offset in range(part["minOffset"], part["maxOffset"] + 1)
        )


class _Crew:
    def __init__(self, servers: str, directory: Path, assignor: str, ended: ExitStack) -> None:
        self._servers, self._directory, self._assignor, self._ended = servers, directory, assignor, ended
        self._all: list[_Member] = []
        self.members: list[_Member] = []

    def takes_in(self, protocol: str) -> None:
        log = self._directory / f"{self._assignor}-{len(self._all)}.log"
        member = _Member(self._servers, log, protocol, self._assignor)
        self._ended.callback(member.running.stop)
        self._all.append(member)
        self.members.append(member)
        self.works()

    def loses(self) -> None:
        """The one that came first."""
        self.members.pop(0).running.stop()
        self.works()

    def works(self) -> None:
        """The members share the partitions, and records that come are handled."""
        programs = [one.running for one in self.members]
        until(self._is_shared_out, "each member has a share", *programs)
        sent = RECORDS * self._round()
        of = ("--bootstrap-server", self._servers, "--topic", TOPIC, "--max-messages", RECORDS, "--acks", -1)
        tool("VerifiableProducer", *of)
        until(lambda: len(self.handled) == sent + RECORDS, "all is handled", *programs)
        until(self._is_shared_out, "each member has a share", *programs)

    @property
    def handled(self) -> Counter[tuple[int, int]]:
        return sum((one.handled for one in self._all), Counter())

    def kind(self) -> str:
        """As kafka-groups tells it."""
        told = run(java("org.apache.kafka.tools.GroupsCommand", "--bootstrap-server", self._servers, "--list"))
        return next(line.split()[1] for line in told.splitlines() if line.startswith(self._assignor))

    def _round(self) -> int:
        return len(self.handled) // RECORDS

    def _is_shared_out(self) -> bool:
        given = [one.partitions for one in self.members]
        return all(given) and sorted(number for some in given for number in some) == list(range(PARTITIONS))


def migration(servers: str, directory: Path) -> None:
    """kafka-verifiable-consumer: a member after the other goes over and back; each record is handled once."""
    for assignor in ("RangeAssignor", "CooperativeStickyAssignor"):
        tool("TopicCommand", "--bootstrap-server", servers, "--create", "--topic", TOPIC, "--partitions", PARTITIONS)
        with ExitStack() as ended:
            crew = _Crew(servers, directory, assignor, ended)
            for protocol in ("classic", "classic", "consumer"):
                crew.takes_in(protocol)
            expect_in("Consumer", crew.kind())
            crew.loses()
            crew.takes_in("consumer")
            crew.loses()
            crew.takes_in("classic")
            crew.loses()
            expect_in("Consumer", crew.kind())
            crew.loses()
            expect_in("Classic", crew.kind())
            expect(set(crew.handled.values()), {1}, "how often each record was handled")
        tool("TopicCommand", "--bootstrap-server", servers, "--delete", "--topic", TOPIC)
