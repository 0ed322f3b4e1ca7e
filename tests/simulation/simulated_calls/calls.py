"""Every call of the API that changes something, each ready to be made once, with what it needs in the store.

A kind is a function that prepares what its call needs, by a gateway whose store works, and returns the call.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

TOPICS = {"t": 2, "u": 1}
GROUPS = ("g", "h")
SESSION_MS = 1_800_000
TRANSACTION_MS = 900_000
DELAY_MS = 86_400_000

Do = Callable[..., Any]
"""Makes a call (method, path, body, headers) on a gateway whose store works; returns the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call. ``route`` is its template; ``group``: whose coordinator it goes to."""

    route: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    values: tuple[str, ...] = ()
    """Of the records that it brings."""
    transaction: str | None = None
    """The one that its records are staged for."""
    is_one_step: bool = True
    """One commit does what it asks for: once that stands, it is a success."""

    @property
    def method(self) -> str:
        return self.route.split(" ")[0]


Kind = Callable[["Calls", str], Call]


class Calls:
    """Draws calls from the seed and remembers what they need: members, transactions, names."""

    def __init__(self, rng: random.Random, do: Do, kinds: Mapping[str, tuple[Kind, ...]]) -> None:
        self.rng = rng
        self.do = do
        self._kinds = kinds
        self._numbers, self.groups = count(), list(GROUPS)
        self.open_transactions: list[str] = []
        self.schemas: dict[int, Any] = {}
        """By id, as they were seen."""

    def draw(self, route: str) -> Call:
        """A call of the route."""
        return self.rng.choice(self._kinds[route])(self, route)

    def number(self) -> int:
        return next(self._numbers)

    def value(self) -> str:
        return f"value-{self.number()}"

    def topic(self, name: str, partition_count: int = 1) -> str:
        """A topic of the call's own, with records, and an offset of a group in it."""
        body = {"name": name, "partition_count": partition_count, "config": {"flush.ms": 0}}
        self.do("POST", "/v1/topics", body)
        self.do("POST", f"/v1/topics/{name}/records", {"records": [{"partition": 0, "value": self.value()}] * 3})
        return name

    def begun(self) -> str:
        body = {"transactional_id": f"id-{self.number()}", "timeout_ms": TRANSACTION_MS}
        transaction: str = self.do("POST", "/v1/transactions", body)["transaction_id"]
        self.open_transactions.append(transaction)
        return transaction

    def member(self, group: str, **joining: Any) -> dict[str, Any]:
        """A member that joined just now."""
        body = {"topics": sorted(TOPICS), "session_timeout_ms": SESSION_MS} | joining
        found: dict[str, Any] = self.do("POST", f"/v1/groups/{group}/members", body)
        return found

    def own_group(self) -> str:
        """The name of a group that is not there yet."""
        name = f"group-{self.number()}"
        self.groups.append(name)
        return name


def _create(calls: Calls, route: str) -> Call:
    body = {"name": f"new-{calls.number()}", "partition_count": 2, "config": {"flush.ms": 0}}
    return Call(route=route, path="/v1/topics", body=body)


def _alter(calls: Calls, route: str) -> Call:
    name = calls.topic(f"altered-{calls.number()}")
    body = {"partition_count": 3, "config": {"retention.ms": 1_000_000 + calls.number()}}
    return Call(route=route, path=f"/v1/topics/{name}", body=body)


def _delete_topic(calls: Calls, route: str) -> Call:
    return Call(route=route, path=f"/v1/topics/{calls.topic(f'doomed-{calls.number()}')}")


def _delete_records(calls: Calls, route: str) -> Call:
    name = calls.topic(f"cut-{calls.number()}")
    body = {"before": [{"partition": 0, "offset": 2}]}
    return Call(route=route, path=f"/v1/topics/{name}:delete-records", body=body)


def _erase(calls: Calls, route: str) -> Call:
    name = calls.topic(f"erased-{calls.number()}")
    return Call(route=route, path=f"/v1/topics/{name}/erasures", body={"keys": ["a"]})


def _create_pin(calls: Calls, route: str) -> Call:
    name = calls.topic(f"pinned-{calls.number()}")
    return Call(route=route, path=f"/v1/topics/{name}/pins", body={"name": "p"})


def _pin_older(calls: Calls, route: str) -> Call:
    name = calls.topic(f"pinned-{calls.number()}")
    return Call(route=route, path=f"/v1/topics/{name}/pins", body={"name": "p", "version": 0, "ttl_ms": 60_000})


def _delete_pin(calls: Calls, route: str) -> Call:
    name = calls.topic(f"pinned-{calls.number()}")
    calls.do("POST", f"/v1/topics/{name}/pins", {"name": "p"})
    return Call(route=route, path=f"/v1/topics/{name}/pins/p")


def _produce(calls: Calls, route: str) -> Call:
    values = (calls.value(), calls.value())
    body = {"records": [{"value": value, "partition": 0} for value in values]}
    return Call(route=route, path="/v1/topics/t/records", body=body, values=values)


def _produce_stamped(calls: Calls, route: str) -> Call:
    producer = calls.do("POST", "/v1/producers", {})
    headers = {
        "Tidelog-Producer-Id": producer["producer_id"],
        "Tidelog-Producer-Epoch": str(producer["epoch"]),
        "Tidelog-Producer-Sequence": "0",
    }
    values = (calls.value(),)
    body = {"records": [{"value": values[0]}]}
    return Call(route=route, path="/v1/topics/u/records", body=body, headers=headers, values=values)


def _stage(calls: Calls, route: str) -> Call:
    transaction = calls.begun()
    values = (calls.value(),)
    headers = {"Tidelog-Transaction": transaction}
    body = {"records": [{"value": values[0], "partition": 0}]}
    return Call(
        route=route, path="/v1/topics/t/records", body=body, headers=headers, values=values, transaction=transaction
    )


def _produce_to_one(calls: Calls, route: str) -> Call:
    end = calls.do("GET", "/v1/topics/u/partitions/0/offsets", None)["high_watermark"]
    values = (calls.value(),)
    body = {"records": [{"value": values[0]}]}
    headers = {"Tidelog-Expected-Offset": str(end)}
    return Call(route=route, path="/v1/topics/u/partitions/0/records", body=body, headers=headers, values=values)


def _producer(calls: Calls, route: str) -> Call:
    name = f"id-{calls.number()}"
    calls.do("POST", "/v1/transactions", {"transactional_id": name, "timeout_ms": TRANSACTION_MS})
    return Call(route=route, path="/v1/producers", body={"transactional_id": name})


def _begin(calls: Calls, route: str) -> Call:
    name = f"id-{calls.number()}"
    if calls.rng.random() < 0.5:
        before = calls.do("POST", "/v1/transactions", {"transactional_id": name, "timeout_ms": TRANSACTION_MS})
        calls.open_transactions.append(before["transaction_id"])
    return Call(route=route, path="/v1/transactions", body={"transactional_id": name, "timeout_ms": TRANSACTION_MS})


def _with_contents(calls: Calls) -> str:
    transaction = calls.begun()
    headers = {"Tidelog-Transaction": transaction}
    for topic in TOPICS:
        records = {"records": [{"value": calls.value(), "partition": 0}]}
        calls.do("POST", f"/v1/topics/{topic}/records", records, headers)
    offsets = [{"topic": "t", "partition": 0, "offset": calls.number()}]
    body = {"group": calls.own_group(), "offsets": offsets}
    calls.do("POST", f"/v1/transactions/{transaction}/offsets", body)
    return transaction


def _commit(calls: Calls, route: str) -> Call:
    transaction = _with_contents(calls)
    calls.open_transactions.remove(transaction)
    return Call(route=route, path=f"/v1/transactions/{transaction}:commit", is_one_step=False)


def _abort(calls: Calls, route: str) -> Call:
    transaction = _with_contents(calls)
    return Call(route=route, path=f"/v1/transactions/{transaction}:abort")


def _stage_offsets(calls: Calls, route: str) -> Call:
    transaction = calls.begun()
    offsets = [{"topic": "t", "partition": 1, "offset": calls.number()}]
    body = {"group": calls.own_group(), "offsets": offsets}
    path = f"/v1/transactions/{transaction}/offsets"
    return Call(route=route, path=path, body=body, transaction=transaction)


def _at_once(calls: Calls, route: str) -> Call:
    values = (calls.value(), calls.value())
    topics = [{"topic": topic, "records": [{"value": value}]} for topic, value in zip(TOPICS, values, strict=True)]
    offsets = [{"topic": "u", "partition": 0, "offset": calls.number()}]
    body = {"topics": topics, "group_offsets": [{"group": calls.own_group(), "offsets": offsets}]}
    return Call(route=route, path="/v1/records", body=body, values=values, is_one_step=False)


def _join(calls: Calls, route: str) -> Call:
    group = calls.own_group() if calls.rng.random() < 0.5 else "g"
    body = {"topics": ["t"], "session_timeout_ms": SESSION_MS}
    return Call(route=route, path=f"/v1/groups/{group}/members", body=body, group=group)


def _heartbeat(calls: Calls, route: str) -> Call:
    """It acknowledges a generation that takes partitions from it."""
    group = calls.own_group()
    first = calls.member(group)
    generation = calls.member(group)["generation"]
    path = f"/v1/groups/{group}/members/{first['member_id']}/heartbeat"
    return Call(route=route, path=path, body={"generation": generation}, group=group)


def _leave(calls: Calls, route: str) -> Call:
    group = calls.own_group()
    member = calls.member(group)
    if calls.rng.random() < 0.5:
        calls.member(group)
    return Call(route=route, path=f"/v1/groups/{group}/members/{member['member_id']}", group=group)


def _put_offsets(calls: Calls, route: str) -> Call:
    offsets = [{"topic": "t", "partition": number, "offset": calls.number(), "metadata": "note"} for number in range(2)]
    return Call(route=route, path="/v1/groups/h/offsets", body={"offsets": offsets}, group="h")


def _put_members_offsets(calls: Calls, route: str) -> Call:
    group = calls.own_group()
    member = calls.member(group)
    offsets = [{"topic": "t", "partition": 0, "offset": 1 + calls.number()}]
    body = {"offsets": offsets, "member_id": member["member_id"], "generation": member["generation"]}
    return Call(route=route, path=f"/v1/groups/{group}/offsets", body=body, group=group)


def _with_offsets(calls: Calls) -> str:
    group = calls.own_group()
    offsets = [{"topic": "t", "partition": number, "offset": 1} for number in range(2)]
    calls.do("PUT", f"/v1/groups/{group}/offsets", {"offsets": offsets})
    return group


def _reset(calls: Calls, route: str) -> Call:
    group = _with_offsets(calls)
    body = {"topics": ["t"], "to": calls.rng.choice(("earliest", "latest", {"shift": -1}))}
    return Call(route=route, path=f"/v1/groups/{group}/offsets:reset", body=body, group=group)


def _delete_offsets(calls: Calls, route: str) -> Call:
    group = _with_offsets(calls)
    return Call(route=route, path=f"/v1/groups/{group}/offsets:delete", body={"topics": ["t"]}, group=group)


def _delete_group(calls: Calls, route: str) -> Call:
    group = _with_offsets(calls)
    return Call(route=route, path=f"/v1/groups/{group}", group=group)


_READ = {"max_records": 4, "max_wait_ms": 0}


def _poll_joining(calls: Calls, route: str) -> Call:
    group = calls.own_group()
    body = {"topics": sorted(TOPICS), "session_timeout_ms": SESSION_MS} | _READ
    return Call(route=route, path=f"/v1/groups/{group}/poll", body=body, group=group)


def _poll_committing(calls: Calls, route: str) -> Call:
    group = calls.own_group()
    member = calls.member(group)
    commit = [{"topic": "t", "partition": 0, "offset": 1}, {"topic": "u", "partition": 0, "offset": 2}]
    body = {"member_id": member["member_id"], "generation": member["generation"], "commit": commit} | _READ
    return Call(route=route, path=f"/v1/groups/{group}/poll", body=body, group=group)


def _poll_acknowledging(calls: Calls, route: str) -> Call:
    group = calls.own_group()
    member = calls.member(group)
    generation = calls.member(group)["generation"]
    body = {"member_id": member["member_id"], "generation": generation} | _READ
    return Call(route=route, path=f"/v1/groups/{group}/poll", body=body, group=group)


def _poll_beginning(calls: Calls, route: str) -> Call:
    """Where it begins is committed."""
    group = calls.own_group()
    member = calls.member(group)
    body = {"member_id": member["member_id"], "generation": member["generation"]} | _READ
    return Call(route=route, path=f"/v1/groups/{group}/poll", body=body, group=group)


def _cancel(calls: Calls, route: str) -> Call:
    """A record is looked for behind its cancellation, so what stands may be in doubt."""
    record = {"value": calls.value(), "partition": 0, "deliver_after_ms": DELAY_MS}
    answer = calls.do("POST", "/v1/topics/t/records", {"records": [record]})
    path = f"/v1/topics/t/scheduled/{answer['scheduled'][0]['id']}"
    return Call(route=route, path=path, is_one_step=False)


def _check(calls: Calls, route: str) -> Call:
    body = {"transactional_id": f"checked-{calls.number()}", "timeout_ms": TRANSACTION_MS, "check_after_ms": 1_000}
    calls.open_transactions.append(calls.do("POST", "/v1/transactions", body)["transaction_id"])
    body = {"transactional_id_prefix": "checked-", "max_wait_ms": 3_000}
    return Call(route=route, path="/v1/transactions:check", body=body)


def _queue(calls: Calls) -> str:
    """A queue with records to deliver and a dead letter topic."""
    name, letters = f"queue-{calls.number()}", calls.topic(f"letters-{calls.number()}")
    calls.do("PUT", f"/v1/queues/{name}", {"topics": ["t"], "start": "earliest", "dead_letter_topic": letters})
    return name


def _put_queue(calls: Calls, route: str) -> Call:
    name = calls.rng.choice((_queue(calls), f"queue-{calls.number()}"))
    return Call(route=route, path=f"/v1/queues/{name}", body={"topics": ["u"]}, is_one_step=False)


def _delete_queue(calls: Calls, route: str) -> Call:
    return Call(route=route, path=f"/v1/queues/{_queue(calls)}")


def _receive(calls: Calls, route: str) -> Call:
    return Call(route=route, path=f"/v1/queues/{_queue(calls)}:receive", body={}, is_one_step=False)


def _settle(calls: Calls, route: str) -> Call:
    name = _queue(calls)
    taken = calls.do("POST", f"/v1/queues/{name}:receive", {"max_records": 2})["records"]
    keys = ("topic", "partition", "offset", "lease")
    settlements = [{key: one[key] for key in keys} | {"action": "accept"} for one in taken]
    nothing = {"topic": "t", "partition": 0, "offset": 0, "lease": "none", "action": "accept"}
    body = {"settlements": settlements or [nothing]}
    return Call(route=route, path=f"/v1/queues/{name}:settle", body=body, is_one_step=False)


def _redrive(calls: Calls, route: str) -> Call:
    return Call(route=route, path=f"/v1/queues/{_queue(calls)}:redrive", body={}, is_one_step=False)


KINDS: Mapping[str, tuple[Kind, ...]] = {
    "POST /v1/topics": (_create,),
    "PATCH /v1/topics/{topic}": (_alter,),
    "DELETE /v1/topics/{topic}": (_delete_topic,),
    "POST /v1/topics/{topic}:delete-records": (_delete_records,),
    "POST /v1/topics/{topic}/erasures": (_erase,),
    "POST /v1/topics/{topic}/pins": (_create_pin, _pin_older),
    "DELETE /v1/topics/{topic}/pins/{pin}": (_delete_pin,),
    "POST /v1/topics/{topic}/records": (_produce, _produce_stamped, _stage),
    "POST /v1/topics/{topic}/partitions/{partition}/records": (_produce_to_one,),
    "DELETE /v1/topics/{topic}/scheduled/{scheduled}": (_cancel,),
    "POST /v1/producers": (_producer,),
    "POST /v1/transactions": (_begin,),
    "POST /v1/transactions/{transaction}:commit": (_commit,),
    "POST /v1/transactions/{transaction}:abort": (_abort,),
    "POST /v1/transactions/{transaction}/offsets": (_stage_offsets,),
    "POST /v1/transactions:check": (_check,),
    "POST /v1/records": (_at_once,),
    "POST /v1/groups/{group}/members": (_join,),
    "POST /v1/groups/{group}/members/{member}/heartbeat": (_heartbeat,),
    "DELETE /v1/groups/{group}/members/{member}": (_leave,),
    "PUT /v1/groups/{group}/offsets": (_put_offsets, _put_members_offsets),
    "POST /v1/groups/{group}/offsets:reset": (_reset,),
    "POST /v1/groups/{group}/offsets:delete": (_delete_offsets,),
    "DELETE /v1/groups/{group}": (_delete_group,),
    "PUT /v1/queues/{queue}": (_put_queue,),
    "DELETE /v1/queues/{queue}": (_delete_queue,),
    "POST /v1/queues/{queue}:receive": (_receive,),
    "POST /v1/queues/{queue}:settle": (_settle,),
    "POST /v1/queues/{queue}:redrive": (_redrive,),
    "POST /v1/groups/{group}/poll": (_poll_joining, _poll_committing, _poll_acknowledging, _poll_beginning),
}
"""By route; every route that changes something, but for the schema registry's."""
