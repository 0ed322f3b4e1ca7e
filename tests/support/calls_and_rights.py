"""The calls of the API and the rights that each needs, in the order in which they are judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.secured import acl

Right = tuple[str, str, str]
"""Operation, resource type, resource."""
NAMES = ("topic", "other", "group", "tid", "queue")


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call and the rights that it needs, in the order in which they are named. ``{topic}`` and others stand for names."""

    method: str
    template: str
    rights: tuple[Right, ...]
    path: str = ""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    in_transaction: bool = False
    on_queue: bool = False
    """The queue must be there."""


_TOPIC = "/v1/topics/{topic}"
_PARTITION = "/v1/topics/{topic}/partitions/{partition}"
_GROUP = "/v1/groups/{group}"
_TRANSACTION = "/v1/transactions/{transaction}"
_RECORDS = {"records": [{"value": "v"}]}
_OFFSETS = [{"topic": "{topic}", "partition": 0, "offset": 0}]
_VENDED = {"topics": ["{topic}"]}
_WRITE = ("Write", "topic", "{topic}")
_READ = ("Read", "topic", "{topic}")
_DESCRIBE = ("Describe", "topic", "{topic}")
_READ_GROUP = ("Read", "group", "{group}")
_TRANSACTING = ("Write", "transactional_id", "{tid}")
_DESCRIBE_TRANSACTIONS = ("Describe", "transactional_id", "{tid}")
_ALTER_CLUSTER = ("Alter", "cluster", "cluster")
_QUEUE = "/v1/queues/{queue}"
_READ_QUEUE = ("Read", "group", "{queue}")
_SETTLED = {
    "settlements": [{"topic": "{topic}", "partition": 0, "offset": 0, "lease": "none", "action": "accept"}],
}

CALLS = (
    Call(
        method="POST", template="/v1/topics", rights=(("Create", "topic", "{topic}-new"),), body={"name": "{topic}-new"}
    ),
    Call(method="GET", template=_TOPIC, rights=(_DESCRIBE,)),
    Call(method="PATCH", template=_TOPIC, rights=(("Alter", "topic", "{topic}"),), body={"config": {"flush.ms": 1}}),
    Call(method="DELETE", template=_TOPIC, rights=(("Delete", "topic", "{topic}"),)),
    Call(
        method="POST",
        template=_TOPIC + ":delete-records",
        rights=(("Delete", "topic", "{topic}"),),
        body={"before": []},
    ),
    Call(
        method="POST",
        template=_TOPIC + ":clone",
        rights=(_READ, ("Create", "topic", "{topic}-clone")),
        body={"name": "{topic}-clone"},
    ),
    Call(method="GET", template=_TOPIC + "/clones", rights=(_DESCRIBE,)),
    Call(
        method="POST",
        template=_TOPIC + "/pins",
        rights=(("Alter", "topic", "{topic}"),),
        body={"name": "p", "ttl_ms": 60_000},
    ),
    Call(method="GET", template=_TOPIC + "/pins", rights=(_DESCRIBE,)),
    Call(method="DELETE", template=_TOPIC + "/pins/{pin}", rights=(("Alter", "topic", "{topic}"),)),
    Call(method="POST", template=_TOPIC + "/records", rights=(_WRITE,), body=_RECORDS),
    Call(
        method="POST",
        template=_TOPIC + "/records",
        rights=(_WRITE, _TRANSACTING),
        body=_RECORDS,
        headers={"tidelog-transaction": "{transaction}"},
        in_transaction=True,
    ),
    Call(method="POST", template=_PARTITION + "/records", rights=(_WRITE,), body=_RECORDS),
    Call(method="GET", template=_PARTITION + "/records", rights=(_READ,), path="?offset=earliest"),
    Call(
        method="GET",
        template=_PARTITION + "/records",
        rights=(_READ,),
        path="?offset=latest",
        headers={"accept": "application/x-ndjson"},
    ),
    Call(method="GET", template=_PARTITION + "/offsets", rights=(_DESCRIBE,)),
    Call(method="GET", template=_PARTITION + "/segments", rights=(_READ,)),
    Call(method="GET", template=_TOPIC + "/commits", rights=(_DESCRIBE,)),
    Call(
        method="POST",
        template="/v1/sql",
        rights=(("Read", "topic", "{other}"), _READ),
        body={"sql": 'select * from "{other}" positional join "{topic}"'},
    ),
    Call(method="POST", template="/v1/producers", rights=(_TRANSACTING,), body={"transactional_id": "{tid}"}),
    Call(method="POST", template="/v1/transactions", rights=(_TRANSACTING,), body={"transactional_id": "{tid}"}),
    Call(method="GET", template=_TRANSACTION, rights=(_DESCRIBE_TRANSACTIONS,), in_transaction=True),
    Call(method="POST", template=_TRANSACTION + ":commit", rights=(_TRANSACTING,), in_transaction=True),
    Call(method="POST", template=_TRANSACTION + ":abort", rights=(_TRANSACTING,), in_transaction=True),
    Call(
        method="POST",
        template=_TRANSACTION + "/offsets",
        rights=(_TRANSACTING, _READ_GROUP, _READ),
        body={"group": "{group}", "offsets": _OFFSETS},
        in_transaction=True,
    ),
    Call(
        method="POST",
        template="/v1/records",
        rights=(_WRITE, ("Write", "topic", "{other}"), _READ_GROUP, _READ),
        body={
            "topics": [{"topic": "{topic}", "records": [{"value": "v"}]}, {"topic": "{other}", "records": []}],
            "group_offsets": [{"group": "{group}", "offsets": _OFFSETS}],
        },
    ),
    Call(method="POST", template=_GROUP + "/members", rights=(_READ_GROUP, _READ), body={"topics": ["{topic}"]}),
    Call(method="POST", template=_GROUP + "/poll", rights=(_READ_GROUP, _READ), body={"topics": ["{topic}"]}),
    Call(method="POST", template=_GROUP + "/members/{member}/heartbeat", rights=(_READ_GROUP,), body={"generation": 1}),
    Call(method="DELETE", template=_GROUP + "/members/{member}", rights=(_READ_GROUP,)),
    Call(method="PUT", template=_GROUP + "/offsets", rights=(_READ_GROUP, _READ), body={"offsets": _OFFSETS}),
    Call(method="GET", template=_GROUP + "/offsets", rights=(("Describe", "group", "{group}"),)),
    Call(
        method="POST",
        template=_GROUP + "/offsets:reset",
        rights=(("Alter", "group", "{group}"), _DESCRIBE),
        body={"topics": ["{topic}"], "to": "earliest"},
    ),
    Call(
        method="POST",
        template=_GROUP + "/offsets:delete",
        rights=(("Delete", "group", "{group}"), _READ),
        body={"topics": ["{topic}"]},
    ),
    Call(method="GET", template=_GROUP, rights=(("Describe", "group", "{group}"),)),
    Call(method="GET", template=_GROUP + "/lag", rights=(("Describe", "group", "{group}"),)),
    Call(method="DELETE", template=_GROUP, rights=(("Delete", "group", "{group}"),)),
    Call(method="GET", template="/metrics", rights=(("Describe", "cluster", "cluster"),)),
    Call(method="GET", template="/v1/activity", rights=(("Describe", "cluster", "cluster"),)),
    Call(method="GET", template="/v1/monitoring/alarms", rights=(("Describe", "cluster", "cluster"),)),
    Call(method="GET", template="/v1/monitoring/history", rights=(("Describe", "cluster", "cluster"),)),
    Call(method="POST", template="/v1/access/tokens", rights=(_ALTER_CLUSTER,), body={"principal": "User:someone"}),
    Call(method="GET", template="/v1/access/tokens", rights=(_ALTER_CLUSTER,)),
    Call(method="POST", template="/v1/access/tokens/{token}:rotate", rights=(_ALTER_CLUSTER,)),
    Call(method="DELETE", template="/v1/access/tokens/{token}", rights=(_ALTER_CLUSTER,)),
    Call(method="GET", template="/v1/access/roles", rights=(_ALTER_CLUSTER,)),
    Call(method="PUT", template="/v1/access/roles/{role}", rights=(_ALTER_CLUSTER,), body={"members": []}),
    Call(method="DELETE", template="/v1/access/roles/{role}", rights=(_ALTER_CLUSTER,)),
    Call(
        method="POST",
        template="/v1/access/acls",
        rights=(_ALTER_CLUSTER,),
        body={"acls": [acl("User:someone", "Read", "topic", "t")]},
    ),
    Call(method="GET", template="/v1/access/acls", rights=(_ALTER_CLUSTER,)),
    Call(method="DELETE", template="/v1/access/acls", rights=(_ALTER_CLUSTER,), path="?principal=User:nobody"),
    Call(
        method="POST",
        template="/v1/access:test",
        rights=(_ALTER_CLUSTER,),
        body={"principal": "User:someone", "operation": "Read", "resource_type": "topic", "resource": "t"},
    ),
    Call(method="GET", template="/v1/access/quotas", rights=(_ALTER_CLUSTER,)),
    Call(method="GET", template="/v1/access/quotas/{principal}", rights=(_ALTER_CLUSTER,)),
    Call(method="PUT", template="/v1/access/quotas/{principal}", rights=(_ALTER_CLUSTER,), body={}),
    Call(method="POST", template="/v1/credentials", rights=(_READ,), body=_VENDED | {"access": "read"}),
    Call(method="POST", template="/v1/credentials", rights=(_WRITE,), body=_VENDED | {"access": "append"}),
    Call(
        method="PUT",
        template=_QUEUE,
        rights=(("Alter", "group", "{queue}"), _READ, ("Write", "topic", "{other}")),
        body={"topics": ["{topic}"], "dead_letter_topic": "{other}"},
    ),
    Call(method="GET", template=_QUEUE, rights=(("Describe", "group", "{queue}"),), on_queue=True),
    Call(method="POST", template=_QUEUE + ":receive", rights=(_READ_QUEUE, _READ), body={}, on_queue=True),
    Call(method="POST", template=_QUEUE + ":settle", rights=(_READ_QUEUE, _READ), body=_SETTLED, on_queue=True),
    Call(
        method="POST",
        template=_QUEUE + ":settle",
        rights=(_READ_QUEUE, _READ, _TRANSACTING),
        body=_SETTLED,
        headers={"tidelog-transaction": "{transaction}"},
        in_transaction=True,
        on_queue=True,
    ),
    Call(
        method="POST",
        template=_QUEUE + ":redrive",
        rights=(("Alter", "group", "{queue}"), ("Read", "topic", "{other}"), _WRITE),
        body={},
        on_queue=True,
    ),
    Call(method="DELETE", template=_QUEUE, rights=(("Delete", "group", "{queue}"),), on_queue=True),
    Call(
        method="POST",
        template=_TOPIC + "/erasures",
        rights=(("Delete", "topic", "{topic}"),),
        body={"keys": ["nobody"]},
    ),
    Call(method="GET", template=_TOPIC + "/erasures", rights=(_DESCRIBE,)),
    Call(method="GET", template=_TOPIC + "/erasures/{erasure}", rights=(_DESCRIBE,)),
    Call(method="GET", template=_TOPIC + "/scheduled", rights=(_READ,)),
    Call(method="GET", template=_TOPIC + "/scheduled/{scheduled}", rights=(_READ,)),
    Call(method="DELETE", template=_TOPIC + "/scheduled/{scheduled}", rights=(_WRITE,)),
)
"""By the paths of the OpenAPI document. What needs nothing as a whole is not here."""
