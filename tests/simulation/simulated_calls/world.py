"""One history of calls from one seed: the store begins to fail for a gateway right after one of its writes stands.

Two real gateways share a store. Calls go to one of them. In the middle of each, behind a write that the seed draws, its store
begins to fail, or the other gateway takes its group over. The other gateway's store works throughout: it tells what clients can
see before and after. ``simulate_calls(seed)`` returns what happened or raises ``Violation``:

1. Refused means that nothing changed, ever. What clients see of topics, settings, records, offsets, members and transactions is
   what it was, also when everything late has come.
2. An id of a schema never means another one.
3. What stands is a success. The answer is 2xx when something changed, no store answer about a standing write was lost, and no
   commit came after the store had broken.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Any

from gateway.engine.bounds import EngineBounds
from gateway.groups.bounds import GroupBounds
from log_format import layout
from log_format.errors import StoreUnavailable
from tests.simulation.simulated.faults import CALM, SECOND_MS, Fault, Faults
from tests.simulation.simulated.scheduler import Machine
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated.world import History, ignore
from tests.simulation.simulated_calls.calls import GROUPS, TOPICS, Call, Calls
from tests.simulation.simulated_calls.registry_calls import EVERY_KIND, registry_view
from tests.simulation.simulated_service.gateways_world import GatewaysWorld
from tests.simulation.simulated_service.network import Reply
from tests.simulation.simulated_service.service import Code, Service

CALLS = 4
"""In each history."""
BROKEN_MS_MAX = 60 * SECOND_MS
LATE_MS = 25 * SECOND_MS
"""After so long nothing is under way any more."""

View = dict[str, Any]
"""What can be seen by the API."""

_REQUEST_ID = re.compile(r'(, )?"request_id": "[^"]*"')


class Break(Enum):
    """What begins behind the write."""

    REFUSES = "the store refuses"
    SILENT = "the store gets no request"
    LOSES = "the store's answers are lost, or late"
    UNREADABLE = "the store can't be read"
    TAKEOVER = "another gateway takes the group"

    @property
    def hides_nothing(self) -> bool:
        """Whether no write stands behind it of which the gateway hears nothing."""
        return self is not Break.LOSES


class Breaking(Faults):
    """The faults of the gateway that is called: none, until it breaks."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, CALM)
        self.active = False
        self._rng = rng
        self.broken: Break | None = None

    def of_request(self, *, writes: bool, commits: bool) -> Fault:
        match self.broken:
            case Break.REFUSES:
                return Fault.REFUSED
            case Break.SILENT:
                return Fault.REQUEST_LOST
            case Break.UNREADABLE:
                return Fault.NONE if writes else self._rng.choice((Fault.REFUSED, Fault.REQUEST_LOST))
            case Break.LOSES:
                return self._rng.choice(
                    (Fault.ANSWER_LOST, Fault.LATE) if writes else (Fault.REFUSED, Fault.ANSWER_LOST)
                )
            case _:
                return Fault.NONE

    def late_ms(self) -> int:
        return self._rng.randrange(1, LATE_MS)


def simulate_calls(
    seed: int, *, code: Code | None = None, route: str | None = None, on_note: Callable[[str], None] = ignore
) -> History:
    """Run the history of ``seed``; ``route``: with calls of this one only."""
    world = CallsWorld(random.Random(seed), route)
    world.run(seed, code=code, on_note=on_note)
    return History(seed=seed, profile="calls", trace=tuple(world.scheduler.trace), seen=world.seen)


class CallsWorld(GatewaysWorld):
    """Two gateways: ``here``, whose store breaks, and ``there``, whose store works throughout."""

    def __init__(self, rng: random.Random, route: str | None) -> None:
        whole = Faults(rng, CALM)
        whole.active = False
        super().__init__(rng, whole)
        self._routes = sorted(EVERY_KIND) if route is None else [route]
        self.seen: Counter[str] = Counter()
        self._breaking = Breaking(rng)
        self._calls = Calls(rng, self._do, EVERY_KIND)
        self._refused: set[str] = set()
        self._writes_to_go: int | None = None
        self._counts_all = False
        self._loses_own = False
        self._lost_own = False
        self._later_commits = 0
        self._call: Call | None = None
        self._kind = Break.REFUSES

    def begin(self) -> None:
        """Start gateways and the client."""
        self._here, self._there = self._service("here", self._breaking), self._service("there", self.faults)
        self.scheduler.start("calls", self.outside, self._live)

    def start_service(self) -> Service:
        """None crashes."""
        raise NotImplementedError

    def _service(self, name: str, faults: Faults) -> Service:
        machine = Machine(name)
        # Calm bounds: checkpoints are as rare as ever.
        client = self.client(machine, faults)
        service = self.service(client, machine, bounds=EngineBounds(), group_bounds=GroupBounds())
        self.services.append(service)
        return service

    def _live(self) -> None:
        for topic, partition_count in TOPICS.items():
            body = {"name": topic, "partition_count": partition_count, "config": {"flush.ms": 0}}
            self._do("POST", "/v1/topics", body)
            for partition in range(partition_count):
                records = [{"value": self._calls.value()} for _ in range(3)]
                self._do("POST", f"/v1/topics/{topic}/partitions/{partition}/records", {"records": records})
        for group in GROUPS:
            offsets = [{"topic": "t", "partition": 0, "offset": 1}]
            self._do("PUT", f"/v1/groups/{group}/offsets", {"offsets": offsets})
        for _ in range(CALLS):
            self._one(self._calls.draw(self.rng.choice(self._routes)))
        self._end()
        self.scheduler.at(0, self.stop)

    def _one(self, call: Call) -> None:
        """A call that is broken in the middle, and what can be seen of it."""
        before = self._view()
        self._arm(call)
        self.scheduler.note(f"{call.method} {call.path} {json.dumps(call.body)}")
        reply = self.network.call(self._here, call.method, call.path, call.body, dict(call.headers))
        has_broken = self._writes_to_go is None
        self._writes_to_go = None
        self.seen[f"{call.route}: {'broken' if has_broken else 'whole'}"] += 1
        if not isinstance(reply, Reply):
            self.seen["no answer"] += 1
            self._heal()
            return
        # The middleware draws a request's id from the system, so it is no part of the history.
        told = _REQUEST_ID.sub("", json.dumps(reply.body or {}))  # partitions that failed have it, too
        self.scheduler.note(f"answered {reply.status} {told}")
        self._judge(call, reply, before, has_broken=has_broken)

    def _judge(self, call: Call, reply: Reply, before: View, *, has_broken: bool) -> None:
        is_refused = reply.status >= 400 and not reply.may_have_happened
        self.seen["refused" if is_refused else "in doubt" if reply.status >= 400 else "done"] += 1
        if has_broken and reply.status < 400:
            self.seen["done, and then broken"] += 1
        if not has_broken and reply.status >= 400:
            raise Violation(f"{call.route} met no fault and was answered {reply.status} {reply.body}")
        after = self._view()
        self._heal()
        later = self._view()
        if is_refused:
            self._refused |= set(call.values)
            for view, when in ((after, "then"), (later, "later")):
                if view != before:
                    raise Violation(f"{call.route} was refused: {reply.body}; {when}: {_difference(before, view)}")
        # A commit that got through later may stand since the call gave up waiting for it.
        is_late = self._kind is not Break.TAKEOVER and self._later_commits > 0
        hides_nothing = self._kind.hides_nothing and not self._lost_own and not is_late
        if reply.status >= 400 and hides_nothing and call.is_one_step and after != before:
            raise Violation(f"{call.route} stands and was answered {reply.body}: {_difference(before, after)}")
        if reply.status < 300 and call.transaction is None and not _is_empty(call) and later != after:
            raise Violation(f"{call.route} was done, and changed later: {_difference(after, later)}")

    def _end(self) -> None:
        """What was staged and refused is in no transaction that is committed."""
        for transaction in self._calls.open_transactions:
            self.network.call(self._there, "POST", f"/v1/transactions/{transaction}:commit")
        shown = json.dumps(self._view())
        for value in sorted(self._refused):
            if f'"{value}"' in shown:
                raise Violation(f"{value} was refused and is there")
        self.seen["refused values"] += len(self._refused)

    # What breaks

    def _arm(self, call: Call) -> None:
        kinds = [kind for kind in Break if kind is not Break.TAKEOVER or call.group is not None]
        self._kind = self.rng.choice(kinds)
        self._call = call
        self._counts_all = self.rng.random() < 0.2
        self._writes_to_go = self.rng.choice((1, 1, 2, 3))
        self._loses_own = self.rng.random() < 0.25
        self._lost_own = False
        self._later_commits = 0

    def written(self, key: str, _data: bytes) -> None:
        """A write of either gateway stands."""
        is_commit = layout.commit_version(key) is not None
        is_staged = "staged" in key
        self._later_commits += is_commit
        if self._writes_to_go is None or not (is_commit or is_staged or self._counts_all):
            return
        self._writes_to_go -= 1
        if self._writes_to_go:
            return
        self._writes_to_go = None
        self._later_commits = 0
        self.scheduler.note(f"behind {key}: {self._kind.value}")
        self.seen[self._kind.value] += 1
        if self._kind is Break.TAKEOVER:
            self._take_over()
            return
        self._breaking.broken = self._kind
        self.scheduler.at(self.rng.randrange(SECOND_MS, BROKEN_MS_MAX), self._mend)
        if self._loses_own:
            self._lost_own = True
            raise StoreUnavailable(key, "it broke off", may_have_happened=True)

    def _take_over(self) -> None:
        """Another gateway claims the group, while the one that is called stands still for longer than its lease."""
        assert self._call is not None
        group = self._call.group
        if self.rng.random() < 0.7:
            self._here.machine.paused_until_ms = (
                self.scheduler.now_ms + GroupBounds().lease_ms + self.rng.randrange(3 * SECOND_MS)
            )

        def claim() -> None:
            self.network.call(self._there, "GET", f"/v1/groups/{group}")

        self.scheduler.start("takeover", self.outside, claim)

    def _mend(self) -> None:
        self._breaking.broken = None

    def _heal(self) -> None:
        self.scheduler.sleep_ms(BROKEN_MS_MAX + LATE_MS)
        self._mend()

    # What can be seen

    def _do(
        self, method: str, path: str, body: Any, headers: dict[str, str] | None = None, *, may_be_gone: bool = False
    ) -> Any:
        """A call on the gateway whose store works. What is late may end what was just listed: then None."""
        reply = self.network.call(self._there, method, path, body, headers)
        if may_be_gone and isinstance(reply, Reply) and reply.status == 404:
            return None
        if not isinstance(reply, Reply) or reply.status >= 300:
            raise Violation(f"{method} {path} {body} met no fault, and was answered {reply}")
        return reply.body

    def _view(self) -> View:
        """Everything, by the other gateway."""
        view: View = {}
        for topic in self._do("GET", "/v1/topics", None)["topics"]:
            name = topic["name"]
            view[f"topic {name}"] = topic
            waiting = self._do("GET", f"/v1/topics/{name}/scheduled", None, may_be_gone=True)
            view[f"scheduled {name}"] = waiting
            for part in topic["partitions"]:
                path = f"/v1/topics/{name}/partitions/{part['partition']}/records?offset=earliest"
                read = self._do("GET", path, None, may_be_gone=True)
                if read is not None:
                    values = [(one["offset"], one["value"]) for one in read["records"]]
                    view[f"records {name}/{part['partition']}"] = values
        for queue in self._do("GET", "/v1/queues", None)["queues"]:
            view[f"queue {queue['queue']}"] = queue
        for group in self._do("GET", "/v1/groups", None)["groups"]:
            name = group["group"]
            view[f"group {name}"] = self._do("GET", f"/v1/groups/{name}", None, may_be_gone=True)
            view[f"offsets {name}"] = self._do("GET", f"/v1/groups/{name}/offsets", None, may_be_gone=True)
        view |= registry_view(self._do, self._calls.schemas)
        view = {name: one for name, one in view.items() if one is not None}
        for transaction in self._calls.open_transactions:
            view[f"transaction {transaction}"] = self._do("GET", f"/v1/transactions/{transaction}", None)["state"]
        return view


def _is_empty(call: Call) -> bool:
    """Whether the next process that looks finishes its work behind the answer."""
    return call.route == "DELETE /v1/topics/{topic}"


def _difference(before: View, after: View) -> str:
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return "; ".join(f"{name} was {before.get(name)}, is {after.get(name)}" for name in names)
