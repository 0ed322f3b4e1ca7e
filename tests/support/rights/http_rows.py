"""The rows of HTTP: those of the calls that declare what they need, and those whose effect goes beyond what the request names."""

from __future__ import annotations

import json
import secrets
import time
from functools import partial
from typing import Any, Final

from tests.support.calls_and_rights import CALLS, Call
from tests.support.rights.row import (
    ALTER_QUEUE,
    DELETE_GROUP,
    DESCRIBE,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_QUEUE,
    DESCRIBE_TRANSACTIONS,
    OF_SUBJECT,
    READ,
    READ_GROUP,
    READ_OTHER,
    READ_QUEUE,
    TRANSACTING,
    WRITE,
    WRITE_LETTERS,
    WRITE_LETTERS_OF_NEW,
    Row,
)
from tests.support.rights.world import Answer, World
from tests.support.waiting import until

_TOPIC: Final = "/v1/topics/{topic}"
_LETTERS: Final = {"data.on.error": "dead-letter"}
_RECORDS: Final = {"records": [{"value": "v"}]}
_OFFSETS: Final = [{"topic": "{topic}", "partition": 0, "offset": 1}]
_QUEUE: Final = {"topics": ["{topic}"], "start": "earliest", "max_deliveries": 1, "dead_letter_topic": "{dead}"}
_LATER: Final = {"key": "secret-topic", "value": "v"}
_IN: Final = "/v1/transactions/{transaction}"


def _queue(world: World, **more: Any) -> None:
    world.admin("PUT", "/v1/queues/{queue}", _QUEUE | more)


def _clone(world: World) -> None:
    world.names["clone"] = f"clone-{secrets.token_hex(4)}"
    world.admin("POST", _TOPIC + ":clone", {"name": "{clone}"})


def _begun(world: World) -> None:
    world.may_all()
    world.names["transaction"] = world.mine("POST", "/v1/transactions", {"transactional_id": "{tid}"})["transaction_id"]


def _staged(world: World) -> None:
    """Records, offsets of a group, and settlements of a queue's records."""
    _begun(world)
    _queue(world, topics=["{other}"], lock_ms=1000, max_deliveries=100)
    transacting = {"tidelog-transaction": "{transaction}"}
    world.mine("POST", _TOPIC + "/records", _RECORDS, **transacting)
    world.mine("POST", _IN + "/offsets", {"group": "{group}", "offsets": [_OFFSETS[0] | {"topic": "{dead}"}]})
    _settled(world, "other", **transacting)


def _received(world: World, name: str = "topic") -> list[dict[str, Any]]:
    world.admin("POST", f"/v1/topics/{{{name}}}/records", {"records": [{"value": f"secret-{name}"}]})
    given = world.admin("POST", "/v1/queues/{queue}:receive", {"max_records": 1, "max_wait_ms": 3000})
    found: list[dict[str, Any]] = given["records"]
    return found


def _settled(world: World, name: str, action: str = "accept", **headers: str) -> None:
    (one,) = _received(world, name)
    kept = {name: one[name] for name in ("topic", "partition", "offset", "lease")}
    world.mine("POST", "/v1/queues/{queue}:settle", {"settlements": [kept | {"action": action}]}, **headers)


def _dead_letter(world: World) -> None:
    _queue(world)
    world.may_all()
    ends = "/v1/topics/{dead}/partitions/0/offsets"
    before = world.admin("GET", ends)["high_watermark"]
    _settled(world, "topic", "reject")
    until(lambda: world.admin("GET", ends)["high_watermark"] > before)


def committed(world: World) -> None:
    """The newest transaction of the transactional id has put a record into the topic."""
    _begun(world)
    world.mine("POST", _TOPIC + "/records", _RECORDS, **{"tidelog-transaction": "{transaction}"})
    world.mine("POST", _IN + ":commit", {})


def _offsets(world: World) -> None:
    world.admin("PUT", "/v1/groups/{group}/offsets", {"offsets": _OFFSETS})


def joined(world: World) -> None:
    """A member of the group is the caller's."""
    world.may_all()
    joined = world.mine("POST", "/v1/groups/{group}/members", {"topics": ["{topic}"]})
    world.names |= {"member": joined["member_id"], "generation": str(joined["generation"])}


def another_group(world: World) -> None:
    """A pattern that matched nothing may match later: the members of one call would share partitions with those of the next."""
    world.names["group"] = f"group-{secrets.token_hex(4)}-{world.names['mark']}"


def _delayed(world: World) -> None:
    later = int(time.time() * 1000) + 3_600_000
    made = world.admin("POST", _TOPIC + "/records", {"records": [_LATER | {"deliver_at": later}]})
    world.names["scheduled"] = made["scheduled"][0]["id"]


def _claimed_letter(world: World) -> None:
    """A record of the dead letter topic says that it is of the queue."""
    _queue(world)
    headers = {"tidelog-dlq-queue": "{queue}", "tidelog-dlq-topic": "{topic}"}
    world.admin("POST", "/v1/topics/{dead}/records", {"records": [{"value": "v", "headers": headers}]})


def _letter_of_topic(world: World) -> None:
    """A record says that it is a dead letter of the topic by its schema, where a queue reads such letters."""
    letters = "{topic}.dead-letters"
    world.admin("POST", "/v1/topics", {"name": letters, "partition_count": 1})
    _queue(world, topics=[letters], dead_letter_topic=None)
    headers = {"tidelog.topic": "{topic}", "tidelog.partition": "0"}
    body = {"records": [{"value": "v", "headers": headers}]}
    world.admin("POST", f"/v1/topics/{letters}/records", body)


def _asked(method: str, path: str, body: Any, world: World, *, headers: dict[str, str] | None = None) -> Answer:
    return world.http(method, path, body, headers)


def _declared(call: Call) -> Row:
    """A call of the black-box suite."""

    def prepare(world: World) -> None:
        if call.in_transaction:
            _begun(world)
        if call.on_queue:
            body = {"topics": ["{topic}"], "dead_letter_topic": "{other}"}
            world.admin("PUT", "/v1/queues/{queue}", body)

    return Row(
        operation=f"{call.method} {call.template}",
        what=call.path + "".join(sorted(call.headers)),
        rights=call.rights,
        call=lambda world: world.http(call.method, call.template + call.path, call.body, call.headers),
        prepare=prepare,
        may_fail=True,
    )


def _row(operation: str, *rights: Any, body: Any = None, query: str = "", what: str = "", **more: Any) -> Row:
    """A row whose call is its operation, with a body."""
    method, path = operation.split(" ")
    headers = more.pop("headers", None)
    call = more.pop("call", None) or partial(_asked, method, path + query, body, headers=headers)
    return Row(operation=operation, rights=rights, what=what, call=call, **more)


def _typed(world: World) -> None:
    """Wrong records of the topic go to its dead letters."""
    schema = {"schema": '"long"'}
    world.admin("POST", "/registry/subjects/{topic}-value/versions", schema)
    world.admin("PATCH", _TOPIC, {"config": {"value.schema": "{topic}-value"} | _LETTERS})


def referring(world: World) -> None:
    """A subject whose schema has a part of another subject."""
    part = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    whole = {"type": "record", "name": "W", "fields": [{"name": "r", "type": "R"}]}
    world.admin("POST", "/registry/subjects/{topic}-referred/versions", {"schema": json.dumps(part)})
    references = [{"name": "R", "subject": f"{world.names['topic']}-referred", "version": 1}]
    body = {"schema": json.dumps(whole), "references": references}
    world.admin("POST", "/registry/subjects/{topic}-value/versions", body)


_SCHEMA: Final = {"value.schema": "{topic}-value"}
_ONE: Final = [{"topic": "{topic}", "partition": 0, "offset": 0}, {"topic": "{other}", "partition": 0, "offset": 0}]
IN_EFFECT: Final = (
    _row("GET /v1/topics", shows=((DESCRIBE, "{topic}"),)),
    _row("GET /v1/topics:summary", shows=((DESCRIBE, "{topic}"), (DESCRIBE_GROUP, "{group}")), prepare=_offsets),
    _row("GET /v1/groups", shows=((DESCRIBE_GROUP, "{group}"),), prepare=_offsets),
    _row("GET /v1/queues", shows=((DESCRIBE_QUEUE, "{queue}"),), prepare=_queue),
    _row("GET /v1/lag", shows=((DESCRIBE, "{topic}"), (DESCRIBE_GROUP, "{group}")), prepare=_offsets),
    _row("GET /v1/transactions", shows=((DESCRIBE_TRANSACTIONS, "{tid}"),), prepare=_begun),
    _row("GET /v1/whoami"),
    _row("POST /v1/whoami:test", body={"rights": [{"operation": "Read", "resource_type": "topic", "resource": "x"}]}),
    _row("GET /v1/cluster", shows=((DESCRIBE_CLUSTER, "memory:"),)),
    _row("POST /v1/fetch", READ, READ_OTHER, body={"partitions": _ONE}),
    _row(
        "POST /v1/transactions:check",
        shows=((TRANSACTING, "{tid}"),),
        body={"transactional_id_prefix": "{tid}", "max_wait_ms": 1500},
        prepare=lambda world: (
            world.may_all(),
            world.mine("POST", "/v1/transactions", {"transactional_id": "{tid}", "check_after_ms": 1000}),
        ),
    ),
    _row("GET /v1/groups/{group}", DESCRIBE_GROUP, shows=((DESCRIBE, "{topic}"),), prepare=joined),
    _row("GET /v1/groups/{group}/offsets", DESCRIBE_GROUP, shows=((DESCRIBE, "{topic}"),), prepare=_offsets),
    _row("GET /v1/groups/{group}/lag", DESCRIBE_GROUP, shows=((DESCRIBE, "{topic}"),), prepare=_offsets),
    _row(
        "POST /v1/groups/{group}/offsets:delete",
        DELETE_GROUP,
        READ_OTHER,
        what="others are not shown",
        body={"topics": ["{other}"]},
        shows=((DESCRIBE, "{topic}"),),
        prepare=_offsets,
    ),
    _row("GET /v1/transactions/{transaction}", DESCRIBE_TRANSACTIONS, what="committed", prepare=committed,
         shows=((DESCRIBE, "{topic}"),)),
    _row(
        "POST /v1/transactions/{transaction}:commit",
        TRANSACTING,
        WRITE,
        READ_GROUP,
        ("Read", "topic", "{dead}"),
        READ_QUEUE,
        READ_OTHER,
        what="all that is staged",
        prepare=_staged,
    ),
    _row("POST /v1/queues/{queue}:redrive", ALTER_QUEUE, WRITE, ("Read", "topic", "{dead}"), what="a letter",
         prepare=_dead_letter),
    _row("POST /v1/queues/{queue}:redrive", ALTER_QUEUE, ("Write", "topic", "{other}"), ("Read", "topic", "{dead}"),
         what="elsewhere", body={"to_topic": "{other}"}, prepare=_dead_letter),
    _row("POST /v1/queues/{queue}:receive", READ_QUEUE, READ, what="a record", body={"max_wait_ms": 0},
         prepare=partial(_queue, max_deliveries=100, lock_ms=1000)),
    _row(
        "POST /v1/groups/{group}/poll",
        READ_GROUP,
        what="by a pattern",
        shows=((READ, "secret-topic"),),
        body={"topic_pattern": "{topic}|{other}"},
        prepare=another_group,
    ),
    _row(
        "PUT /v1/groups/{group}/offsets",
        READ_GROUP,
        READ_OTHER,
        what="others are not shown",
        body={"offsets": [_OFFSETS[0] | {"topic": "{other}"}]},
        shows=((DESCRIBE, "{topic}"),),
        prepare=_offsets,
    ),
    _row(
        "POST /v1/groups/{group}/offsets:reset",
        ("Alter", "group", "{group}"),
        ("Describe", "topic", "{other}"),
        what="others are not shown",
        body={"topics": ["{other}"], "to": "earliest"},
        shows=((DESCRIBE, "{topic}"),),
        prepare=_offsets,
    ),
    _row("POST /v1/queues/{queue}:redrive", ALTER_QUEUE, WRITE, ("Read", "topic", "{dead}"), what="what is unproved",
         body={"unproved": "produce"}, prepare=_claimed_letter),
    _row("POST /v1/queues/{queue}:redrive", ALTER_QUEUE, WRITE, ("Read", "topic", "{dead}"), what="passes what is unproved",
         body={"unproved": "skip"}, prepare=_claimed_letter),
    _row("POST /v1/queues/{queue}:redrive", ALTER_QUEUE, WRITE, ("Read", "topic", "{topic}.dead-letters"),
         what="letters of a schema", body={"unproved": "produce"}, prepare=_letter_of_topic),
    _row("GET /v1/topics/{topic}/scheduled", READ, what="keys", prepare=_delayed),
    _row("GET /v1/topics/{topic}/scheduled/{scheduled}", READ, what="a record", prepare=_delayed),
    _row("DELETE /v1/topics/{topic}/scheduled/{scheduled}", WRITE, what="a record", prepare=_delayed),
    _row("POST /v1/topics/{topic}/records", WRITE, what="later", body={"records": [_LATER | {"deliver_after_ms": 3_600_000}]}),
    _row("POST /v1/topics/{topic}/records", WRITE, what="a dead letter", body=_RECORDS, prepare=_typed),
    _row("POST /v1/topics", ("Create", "topic", "{topic}-new"), WRITE_LETTERS_OF_NEW, what="with dead letters",
         body={"name": "{topic}-new", "config": _LETTERS}),
    _row("POST /v1/topics", ("Create", "topic", "{topic}-new"), *OF_SUBJECT, what="with a schema",
         body={"name": "{topic}-new", "config": _SCHEMA}, prepare=referring),
    _row("PATCH /v1/topics/{topic}", ("Alter", "topic", "{topic}"), *OF_SUBJECT, what="to a schema",
         body={"config": _SCHEMA}, prepare=referring),
    _row("PATCH /v1/topics/{topic}", ("Alter", "topic", "{topic}"), WRITE_LETTERS, what="to dead letters",
         body={"config": _LETTERS}),
    *(
        _row("GET /v1/topics/{topic}/partitions/{partition}/records", READ, what=f"an event stream, {what}", query=query,
             headers={"accept": "text/event-stream"})
        for what, query in (
            ("from an offset", "?offset=0"),
            ("filtered", "?offset=0&key=secret-topic"),
            ("of a topic by its id", "?offset=0&topic_id=0f1d2c3b-0000-4000-8000-000000000000"),
        )
    ),
    _row("POST /v1/topics/{topic}/erasures", ("Delete", "topic", "{topic}"), what="dead letters", body={"keys": ["x"]},
         prepare=_queue, shows=((("Describe", "topic", "{dead}"), "{dead}"),)),
    _row("POST /v1/topics/{topic}/erasures", ("Delete", "topic", "{topic}"), what="a clone", body={"keys": ["x"]},
         prepare=_clone, shows=((("Describe", "topic", "{clone}"), "{clone}"),)),
    _row("GET /v1/topics/{topic}/clones", ("Describe", "topic", "{topic}"), what="a clone", prepare=_clone,
         shows=((("Describe", "topic", "{clone}"), "{clone}"),)),
    _row("POST /v1/topics/{topic}:delete-records", ("Delete", "topic", "{topic}"), what="records",
         body={"before": [{"partition": 0, "offset": -1}]}),
    _row("POST /v1/fetch", READ, what="of a topic by its id",
         body={"partitions": [_ONE[0] | {"topic_id": "0f1d2c3b-0000-4000-8000-000000000000"}]}),
    _row("POST /v1/groups/{group}/poll", READ_GROUP, READ, what="records", body={"topics": ["{topic}"]}),
    *(
        _row("POST /v1/sql", READ, READ_OTHER, what=f"names, {number}", body={"sql": text})
        for number, text in enumerate(
            (
                'select a.* from "{topic}" a join "{other}" b on a."offset" = b."offset"',
                'select value from "{topic}" where "offset" in (select "offset" from "{other}")',
                'with "{other}x" as (select * from "{other}") select * from "{other}x" union all select * from "{topic}"',
                'select (select max(value) from "{other}") from "{topic}"',
                'with recursive r as (select 2 n from "{other}" union select 1) select * from r, "{topic}"',
                'select * from (from "{topic}") t, lateral (select * from "{other}" o where o."offset" = t."offset")',
            )
        )
    ),
)  # fmt: skip
"""Lists, and calls that reach more than their request names."""

_NEEDS_NOTHING: Final = (
    "GET /healthz",
    "GET /readyz",
    "GET /openapi.json",
    "GET /docs",
    "GET /console/{release}/{file}",
)
_BETWEEN_GATEWAYS: Final = ("journal-offers", "journal-news", "queue-takes", "queue-settlements")


def _by_operators(path: str) -> Row:
    def call(world: World) -> Answer:
        answer = world.live.http(None, "GET", path, operators=True)
        return Answer("", (), () if answer.is_success else (answer.status_code,))

    return Row(operation=f"operators GET {path}", call=call)


def _of_peers(name: str) -> Row:
    """Taken from gateways only, by their signature; a client's is refused whatever it may."""

    def call(world: World) -> Answer:
        answer = world.http("POST", f"/gateways/{name}", {})
        assert answer.failures == (404,), answer
        return Answer("")

    return Row(operation=f"POST /gateways/{name}", call=call)


ROWS: Final = (
    *map(_declared, CALLS),
    *IN_EFFECT,
    *(_row(one, may_fail=True) for one in _NEEDS_NOTHING),
    _row("GET /", headers={"accept": "text/html"}),
    *map(_of_peers, _BETWEEN_GATEWAYS),
    *map(_by_operators, ("/healthz", "/readyz", "/metrics", "/v1/cluster")),
)
