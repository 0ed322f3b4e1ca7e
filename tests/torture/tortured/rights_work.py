"""What users do that needs several rights at once: members of a group, offsets, transactions, and Kafka's protocol.

Groups and transactional ids are a user's own, so that nothing but its rights decides what it is answered.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any, Final

from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.support.kafka_frames import Closed, Wire, log_in
from tests.torture.tortured.rights_asker import Asker, Told, chosen
from tests.torture.tortured.rights_calls import Answer
from tests.torture.tortured.rights_operator import Right

TOPIC: Final = "orders"
READ: Final = ("Read", "topic", TOPIC)
WRITE: Final = ("Write", "topic", TOPIC)
POLL_WAIT_MS: Final = 1_000
SESSION_MS: Final = 10_000
OUT: Final = frozenset({"UNKNOWN_MEMBER", "FENCED_MEMBER", "STALE_GENERATION", "UNKNOWN_GROUP"})
"""A user without rights or a secret lets its session pass. Only one that may read the group is told that it is out."""
TRANSACTION_MS: Final = 60_000
_FAR: Final = 1_000_000_000
_LOGIN_FAILED: Final = 58
_STATUS: Final = {0: 200, 29: 403}
"""Of an answer to Kafka's produce. All else is a gateway that can't."""


def members_group(user: str) -> str:
    """The group of which the user is a member."""
    return f"{user}-members"


def offsets_group(user: str) -> str:
    """The group that has the user's offsets, and no member."""
    return f"{user}-offsets"


def rights_of(user: str) -> list[Right]:
    """Those that this work needs beside the topics'."""
    groups = [("Read", "group", group(user)) for group in (members_group, offsets_group)]
    return [*groups, ("Write", "transactional_id", user)]


class GroupWork:
    """A member that polls and commits, and offsets without one. Each offset is committed once, far beyond the log's end."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._member: dict[str, Any] | None = None
        self._group = members_group(asker.user.name)
        self._right = ("Read", "group", self._group)

    def poll(self) -> None:
        """Join, or commit and read as a member."""
        path, place = f"/v1/groups/{self._group}/poll", {"topic": TOPIC, "partition": 0}
        if self._member is None:
            wish: dict[str, Any] = {"topics": [TOPIC], "session_timeout_ms": SESSION_MS, "auto_offset_reset": "latest"}
            told = self._asker.ask("POST", path, wish | {"max_wait_ms": POLL_WAIT_MS})
            if not self._is_out(told):
                self._note(told, "join", {})
            return
        offset = _FAR + self._asker.next_number()
        wish = self._member | {"commit": [place | {"offset": offset}], "max_wait_ms": POLL_WAIT_MS}
        told = self._asker.ask("POST", path, wish)
        if not self._is_out(told):
            self._note(told, "poll", {"offset": (self._group, offset)})

    def commit(self) -> None:
        """One offset."""
        group = offsets_group(self._asker.user.name)
        offset = _FAR + self._asker.next_number()
        body = {"offsets": [{"topic": TOPIC, "partition": 0, "offset": offset}]}
        told = self._asker.ask("PUT", f"/v1/groups/{group}/offsets", body)
        self._asker.note(told, "commit of offsets", ("Read", "group", group), READ, offset=(group, offset))

    def _note(self, told: Told, what: str, committed: dict[str, Any]) -> None:
        self._asker.note(told, what, self._right, READ, **committed)
        if told.answer.status != 200:
            return
        polled = told.answer.body
        self._member = {name: polled[name] for name in ("member_id", "generation")}
        for part in polled["partitions"]:
            status = int(part["error"]["status"]) if "error" in part else 200
            self._asker.note(told, "read by a group", self._right, READ, status=status, waits=True)

    def _is_out(self, told: Told) -> bool:
        if told.answer.code in OUT:
            self._asker.note(told, "poll of one who is out", self._right, is_in=True)
            self._member = None
            return True
        return False


class TransactionWork:
    """One transaction after another of the user's transactional id, each with a record."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._right = ("Write", "transactional_id", asker.user.name)

    def run(self) -> None:
        """Begin, write, and commit or abort; what is refused ends it."""
        wanted = {"transactional_id": self._asker.user.name, "timeout_ms": TRANSACTION_MS}
        told = self._asker.ask("POST", "/v1/transactions", wanted)
        self._asker.note(told, "begin", self._right)
        if told.answer.status != 201:
            return
        transaction = told.answer.body["transaction_id"]
        value = f"{self._asker.user.name}.{self._asker.next_number()}"
        told = self._asker.ask(
            "POST",
            f"/v1/topics/{TOPIC}/partitions/0/records",
            {"records": [{"value": value}]},
            **{"Tidelog-Transaction": transaction},
        )
        self._asker.note(told, "write in a transaction", WRITE, self._right, value=value)
        if told.answer.status != 202:
            return
        if self._asker.rng.random() < 0.25:
            told = self._asker.ask("POST", f"/v1/transactions/{transaction}:abort")
            self._asker.note(told, "abort", self._right, value=value, undone=True)
            return
        told = self._asker.ask("POST", f"/v1/transactions/{transaction}:commit")
        place = None
        if told.answer.status == 200:
            (part,) = told.answer.body["topics"][0]["partitions"]
            place = (TOPIC, 0, int(part["base_offset"]))
        self._asker.note(told, "commit of a transaction", WRITE, self._right, value=value, place=place)


class KafkaWork:
    """Records by Kafka's protocol, a connection each, with the token as password."""

    def __init__(self, asker: Asker, addresses: Sequence[str]) -> None:
        self._asker = asker
        self._addresses = addresses

    def produce(self) -> None:
        """Log in and send a record."""
        gateway = self._asker.rng.randrange(len(self._addresses))
        secret, value = (
            chosen(self._asker.user, self._asker.rng),
            f"{self._asker.user.name}.{self._asker.next_number()}",
        )
        began, status, code, offset, is_in = time.monotonic(), 0, "", -1, False
        with contextlib.suppress(OSError, Closed), Wire(self._addresses[gateway]) as wire:
            if log_in(wire, secret.text).error_code == _LOGIN_FAILED:
                status = 401
            else:
                is_in = True
                data = {"name": TOPIC, "partition_data": [{"index": 0, "records": _batch(value)}]}
                asked = {"transactional_id": None, "acks": -1, "timeout": 10_000, "topic_data": [data]}
                part = wire.call("produce", 9, **asked).responses[0].partition_responses[0]
                error = int(part.error_code)
                status, code, offset = _STATUS.get(error, 503), str(error), int(part.base_offset)
        answer = Answer(status, {"error_code": code}, began, time.monotonic())
        place = (TOPIC, 0, offset) if status == 200 else None
        told = Told(answer=answer, gateway=gateway, secret=secret)
        self._asker.note(told, "Kafka's produce", WRITE, value=value, place=place, is_shut=is_in and not status)


def _batch(value: str) -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    batch.append(0, int(time.time() * 1000), None, value.encode(), [])
    return bytes(batch.build())
