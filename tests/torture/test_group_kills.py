"""Groups when gateways are killed and frozen (G7): no partition held by two, no offset lost or moved back, zombies refused."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.support.forked import GATEWAY
from tests.support.server_process import ServerProcess, free_port
from tests.support.waiting import until
from tests.torture.tortured.group_history import contradictions
from tests.torture.tortured.group_members import Feeder, GroupMember, call

Json = dict[str, Any]

PARTITIONS = 6
SESSION_MS = 4_000
WAIT_SECONDS_MAX = 90

pytestmark = pytest.mark.timeout(400)


class Gateways:
    """Gateways on one directory."""

    def __init__(self, directory: Path, count: int, *options: str) -> None:
        self.http = urllib3.PoolManager(retries=False, timeout=30)
        self.processes: list[ServerProcess] = []
        for index in range(count):
            port = free_port()
            command = [*GATEWAY, "--store", str(directory / "store"), "--port", str(port)]
            log = directory / f"gateway-{index}.log"
            self.processes.append(ServerProcess(f"gateway {index}", [*command, *options], port, "/readyz", {}, log))
            self.processes[-1].start()
        self.urls = [process.url for process in self.processes]
        topic = {"name": "t", "partition_count": PARTITIONS, "config": {"flush.ms": 20}}
        assert self.ask("POST", 0, "/v1/topics", topic).status == 201

    def ask(self, method: str, index: int, path: str, body: Json | None = None) -> Any:
        """One request to one of them."""
        return call(self.http, method, self.urls[index] + path, body)

    def committed(self, index: int) -> dict[int, int]:
        """The group's offsets by partition."""
        answer = self.ask("GET", index, "/v1/groups/g/offsets")
        assert answer.status == 200, answer.body
        return {row["partition"]: row["offset"] for row in answer.body["offsets"]}

    def close(self) -> None:
        """End them all."""
        self.http.clear()
        for process in self.processes:
            process.signal(signal.SIGCONT)
            process.kill()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Gateways]]:
    """Starts gateways."""
    made: list[Gateways] = []

    def begin(count: int, *options: str) -> Gateways:
        made.append(Gateways(tmp_path, count, *options))
        return made[-1]

    yield begin
    for gateways in made:
        gateways.close()


def _more_polls(members: list[GroupMember], count: int) -> Callable[[], bool]:
    wanted = [member.polls + count for member in members]
    return lambda: all(member.polls >= polls for member, polls in zip(members, wanted, strict=True))


def test_a_killed_gateway_costs_a_rebalance_at_most(start: Callable[..., Gateways]) -> None:
    """Killed and started again under live members: each goes on as it was, and every acknowledged offset is there."""
    gateways = start(1)
    stopping = threading.Event()
    members = [
        GroupMember(f"m{number}", gateways.urls, "g", "t", session_ms=30_000, work_seconds=0.02, stopping=stopping)
        for number in range(2)
    ]
    feeder = Feeder(gateways.urls, "t", PARTITIONS, stopping)
    try:
        for thread in (feeder, *members):
            thread.start()
        until(_more_polls(members, 10), WAIT_SECONDS_MAX)
        before = max(member.generations[-1] for member in members)
        gateways.processes[0].kill()
        gateways.processes[0].start()
        until(_more_polls(members, 5), WAIT_SECONDS_MAX)
    finally:
        stopping.set()
        for thread in (feeder, *members):
            thread.join()
    assert [len(member.histories) for member in members] == [1, 1]
    assert max(member.generations[-1] for member in members) <= before + 1
    histories = [history for member in members for history in member.histories]
    assert contradictions(histories, gateways.committed(0)) == []


def test_coordinators_killed_and_frozen(start: Callable[..., Gateways]) -> None:
    """One of two gateways is frozen for longer than its lease and the sessions, killed, and back, and then the other."""
    gateways = start(2, "--heartbeat-ms", "500")
    stopping, fed = threading.Event(), threading.Event()
    members = [
        GroupMember(f"m{number}", gateways.urls, "g", "t", session_ms=SESSION_MS, work_seconds=work, stopping=stopping)
        for number, work in enumerate((0.5, 0.3, 0.0))
    ]
    feeder = Feeder(gateways.urls, "t", PARTITIONS, fed)
    try:
        feeder.start()
        for count, member in enumerate(members, 1):
            # One after another, so that each takes partitions from members at work.
            member.start()
            until(_more_polls(members[:count], 2), WAIT_SECONDS_MAX)
        for process in gateways.processes:
            process.signal(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 + 1.5)
            process.signal(signal.SIGCONT)
            until(_more_polls(members, 3), WAIT_SECONDS_MAX)
            process.kill()
            until(_more_polls(members, 3), WAIT_SECONDS_MAX)
            process.start()
            until(_more_polls(members, 3), WAIT_SECONDS_MAX)
        fed.set()
        feeder.join()
        until(lambda: gateways.ask("GET", 0, "/v1/groups/g/lag").body.get("total") == 0, WAIT_SECONDS_MAX)
    finally:
        fed.set()
        stopping.set()
        for thread in (feeder, *members):
            thread.join()
    histories = [history for member in members for history in member.histories]
    assert contradictions(histories, gateways.committed(1)) == []
    assert sum(commit.ended is not None for history in histories for commit in history.commits) > 20
    read = {(partition, offset) for history in histories for _, partition, offset in history.processed}
    committed = gateways.committed(0)
    assert read >= {(partition, offset) for partition in committed for offset in range(committed[partition])}
    assert sum(committed.values()) > PARTITIONS


def test_a_frozen_coordinator_wakes_as_nobody(start: Callable[..., Gateways]) -> None:
    """It took its member for alive when it was frozen; by the time it wakes another holds everything, and both are refused."""
    gateways = start(2, "--forwarding", "off")
    for partition in range(PARTITIONS):
        url = f"/v1/topics/t/partitions/{partition}/records"
        records = {"records": [{"value": str(number)} for number in range(5)]}
        assert gateways.ask("POST", 0, url, records).status == 200
    joining = {"topics": ["t"], "session_timeout_ms": 1_000}
    zombie = gateways.ask("POST", 0, "/v1/groups/g/members", joining).body
    gateways.processes[0].signal(signal.SIGSTOP)
    heir = gateways.ask("POST", 1, "/v1/groups/g/members", joining | {"session_timeout_ms": 60_000}).body

    def beat(index: int, member: Json) -> Any:
        path = f"/v1/groups/g/members/{member['member_id']}/heartbeat"
        return gateways.ask("POST", index, path, {"generation": member["generation"]})

    def commit(index: int, member: Json, offset: int) -> Any:
        offsets = [{"topic": "t", "partition": number, "offset": offset} for number in range(PARTITIONS)]
        body = {"offsets": offsets, "member_id": member["member_id"], "generation": member["generation"]}
        return gateways.ask("PUT", index, "/v1/groups/g/offsets", body)

    def has_everything() -> bool:
        heir.update(beat(1, heir).body)
        return len(heir["assignment"]) == PARTITIONS

    until(has_everything, WAIT_SECONDS_MAX)
    assert commit(1, heir, 4).status == 200
    gateways.processes[0].signal(signal.SIGCONT)
    for index in (0, 1):
        refused = commit(index, zombie, 2)
        assert (refused.status, refused.code) in {(404, "UNKNOWN_MEMBER"), (409, "STALE_GENERATION")}, refused.body
    assert gateways.committed(0) == gateways.committed(1) == dict.fromkeys(range(PARTITIONS), 4)
    assert beat(0, zombie).code == "UNKNOWN_MEMBER"
    # Whichever gateway is asked now, the heir is a member, and still holds everything.
    until(lambda: beat(0, heir).status == 200, WAIT_SECONDS_MAX)
    assert commit(0, heir, 5).status == 200
    assert len(beat(0, heir).body["assignment"]) == PARTITIONS
