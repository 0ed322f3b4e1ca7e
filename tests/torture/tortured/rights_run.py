"""One run with rights that change and tokens that rotate: start, change, let users try, judge."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from log_format.stores import open_store
from tests.support.access import Client, bootstrap, by, cluster_key
from tests.support.repeatedly import repeatedly
from tests.support.server_process import free_port
from tests.torture.tortured import clients
from tests.torture.tortured.final_log import by_http
from tests.torture.tortured.group_offsets import ever_committed
from tests.torture.tortured.history import History
from tests.torture.tortured.joined import joined
from tests.torture.tortured.renewed_history import RenewedHistory
from tests.torture.tortured.rights_asker import Asker
from tests.torture.tortured.rights_history import Lateness, RightsHistory, Timeline, contradictions
from tests.torture.tortured.rights_operator import KINDS, Gateways, Killer, Operator, User
from tests.torture.tortured.rights_users import Asking, Following
from tests.torture.tortured.rights_work import members_group, offsets_group, rights_of
from tests.torture.tortured.run import Outcome
from tests.torture.tortured.service import STORE, Service, service
from tests.torture.tortured.topic_maker import TopicMaker

PLANTED = Path(__file__).parents[1] / "planted_rights"
TOPICS = {"orders": 1, "payments": 1}
RENEWED = "returns"
"""A topic that is deleted and made anew. Rights are of its name, so they stay."""
JOIN_SECONDS_MAX = 60.0
LATE_EVERY_SECONDS = 0.05
SHOWN_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``planted``: the last gateway does not look at the rights, and no change is made
    there. ``kill_seconds``: between two kills; None: there are none."""

    seconds: float
    seed: int
    gateways: int = 3
    users: int = 6
    pace_seconds: float = 0.2
    change_seconds: float = 0.3
    kill_seconds: float | None = 20.0
    renew_seconds: float = 6.0
    """How long an incarnation of ``RENEWED`` lives."""
    planted: bool = False


def torture_rights(plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda text: None) -> Outcome:
    """Run the plan. Nothing but what users were answered, and the final log, is trusted."""
    began, history, failures = time.monotonic(), RightsHistory(), list[str]()
    token, settings = bootstrap(directory)
    settings = (*settings, *cluster_key(directory), "--heartbeat-ms", "500", "--log-level", "warning")
    planted = {plan.gateways - 1: {"PYTHONPATH": str(PLANTED)}} if plan.planted else {}
    kafka = [f"127.0.0.1:{free_port()}" for _ in range(plan.gateways)]
    environments = {
        index: {"TIDELOG_KAFKA_LISTEN": address, **planted.get(index, {})} for index, address in enumerate(kafka)
    }
    running_service = service(directory, plan.gateways, settings=settings, environments=environments)
    lateness = Lateness()
    with running_service as running, _watched(lateness):
        first = Client(running.urls[0], token)
        with first.http:
            for topic, count in TOPICS.items():
                made = {"name": topic, "partition_count": count, "config": {"flush.ms": 20}}
                assert first.http.post("/v1/topics", json=made).status_code == 201
        stopping, calm = threading.Event(), threading.Event()
        maker = _maker(plan, running, token, history, stopping)
        maker.begin()
        gateways = Gateways(running, plan.gateways - plan.planted)
        users = [_user(number) for number in range(plan.users)]
        operator = Operator(gateways, token, users, _random(plan, "operator"))
        operator.begin()
        killer = Killer(gateways, _random(plan, "killer"), history)
        following = [Following(one, running.urls, history, _random(plan, f"f-{one.name}")) for one in users]
        work: list[tuple[str, Callable[[], None]]] = [
            ("operator", lambda: operator.run(stopping, plan.change_seconds)),
            ("topic-maker", maker.run),
            *((f"follower {one.name}", follower.run) for one, follower in zip(users, following, strict=True)),
        ]
        for user in users:
            asking = Asking(Asker(user, running.urls, history, _random(plan, user.name)), kafka)
            work.append((user.name, _bound(asking, stopping, plan.pace_seconds)))
        threads = [_started(name, body, failures) for name, body in work]
        killing = (
            _started("killer", lambda: killer.run(calm, plan.kill_seconds or 0), failures)
            if plan.kill_seconds
            else None
        )
        deadline = time.monotonic() + plan.seconds
        while (left := deadline - time.monotonic()) > 0 and not failures:
            progress(f"{left:.0f} s left, {len(history.asked)} requests, {len(history.followed)} streams")
            time.sleep(min(left, 1.0))
        calm.set()
        if killing is not None:
            killing.join(JOIN_SECONDS_MAX)
        stopping.set()
        for one in following:
            one.stop()
        failures += joined(threads, JOIN_SECONDS_MAX)
        failures += maker.failures
        log = by_http(running.urls[0], {**TOPICS, RENEWED: 1}, by(token))
        committed = _committed(running, users)
        failures += [f"gateway {i} ended with {code}" for i, one in enumerate(running.gateways) if (code := one.stop())]
    found = contradictions(history, log, lateness, committed)
    counts = history.counts() | dict(sorted((operator.counts | dict(maker.counts)).items()))
    counts["topics made anew"] = len(history.lives) - 1
    counts |= {
        "records": sum(map(len, log.values())),
        "milliseconds that this machine was late at most": int(lateness.seconds_max * 1000),
        "times that this machine was late": len(lateness.spells),
    }
    if len(found) > SHOWN_MAX:
        found = [*found[:SHOWN_MAX], f"and {len(found) - SHOWN_MAX} more"]
    return Outcome(counts=counts, contradictions=failures + found, seconds=time.monotonic() - began)


def _maker(plan: Plan, running: Service, token: str, history: RightsHistory, stopping: threading.Event) -> TopicMaker:
    renewed = RenewedHistory(lives=history.lives)
    history.renewed = RENEWED
    client = clients.Client("topic-maker", running.urls, History(), stopping, plan.seed, token)
    topic = {"name": RENEWED, "partition_count": 1, "config": {"flush.ms": 20}}
    rest_seconds = 1.0 if plan.kill_seconds is None else 15.0
    return TopicMaker(client, topic, renewed, pace_seconds=plan.renew_seconds, rest_seconds=rest_seconds, kafka=())


def _watched(lateness: Lateness) -> AbstractContextManager[None]:
    """Notes how late a thread goes on that sleeps for ``LATE_EVERY_SECONDS``, for the time of a block."""
    before = time.monotonic()

    def note() -> None:
        nonlocal before
        now = time.monotonic()
        lateness.note(now, now - before - LATE_EVERY_SECONDS)
        before = now

    return repeatedly(note, LATE_EVERY_SECONDS)


def _user(number: int) -> User:
    name = f"user-{number}"
    rights = [
        (operation, "topic", topic) for topic in (*TOPICS, RENEWED) for operation in ("Write", "Read")
    ] + rights_of(name)
    return User(name, KINDS[number % len(KINDS)], {right: Timeline() for right in rights})


def _committed(running: Service, users: list[User]) -> dict[str, set[int]]:
    """The offsets that each user's groups ever had, by the table's log."""
    with mock.patch.dict(os.environ, running.environment):
        store = open_store(STORE)
    groups = [group(user.name) for user in users for group in (members_group, offsets_group)]
    return {group: {offset for _, _, offset in ever_committed(store, group)} for group in groups}


def _random(plan: Plan, name: str) -> random.Random:
    return random.Random(f"{plan.seed}-{name}")


def _bound(asking: Asking, stopping: threading.Event, pace_seconds: float) -> Callable[[], None]:
    return lambda: asking.run(stopping, pace_seconds)


def _started(name: str, body: Callable[[], None], failures: list[str]) -> threading.Thread:
    """A thread; what it raises is a failure of the run."""

    def live() -> None:
        try:
            body()
        except Exception as error:  # noqa: BLE001 - it is reported, and fails the run
            failures.append(f"{name}: {type(error).__name__}: {error}")

    thread = threading.Thread(target=live, name=name, daemon=True)
    thread.start()
    return thread
