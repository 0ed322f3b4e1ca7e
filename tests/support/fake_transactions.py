"""The contract's transactions over the fake log: staged requests in lists, applied at the commit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_log import Asked, FakeLog, Problem, answer_json, places_of, records_of


@dataclass
class FakeTransaction:
    """One transaction, and what it was asked to hold."""

    transactional_id: str
    producer_id: str
    epoch: int
    state: str = "open"
    staged: dict[str, list[Asked]] = field(default_factory=dict)
    offsets: list[dict[str, Any]] = field(default_factory=list)
    committed: list[dict[str, Any]] = field(default_factory=list)


class FakeTransactions(FakeLog):
    """``FakeLog`` and docs/http-api.md section 5, without time-outs."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: dict[str, FakeTransaction] = {}
        self.epochs: dict[str, int] = {}
        self.refuse_offsets: str | None = None
        """A code with which offsets are refused."""

    def carry_out(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        names = asked.path.removeprefix("/v1/").split("/")
        with self.changed:
            match asked.method, names:
                case "POST", ["producers"] if b"transactional_id" in asked.body:
                    name = json.loads(asked.body)["transactional_id"]
                    return answer_json(201, {"producer_id": f"p-{name}", "epoch": self._raise_epoch(name)})
                case "POST", ["transactions"]:
                    name = json.loads(asked.body)["transactional_id"]
                    begun = FakeTransaction(name, f"p-{name}", self._raise_epoch(name))
                    self.transactions[f"t{len(self.transactions)}"] = begun
                    members = {"transaction_id": f"t{len(self.transactions) - 1}", "expires_at": 1}
                    return answer_json(201, {**members, "producer_id": begun.producer_id, "epoch": begun.epoch})
                case "POST", ["transactions", name, "offsets"]:
                    if self.refuse_offsets is not None:
                        raise Problem(409, self.refuse_offsets)
                    self._open(name).offsets.append(json.loads(asked.body))
                    return answer_json(202, {})
                case "POST", ["transactions", name] if name.endswith(":commit"):
                    return self._commit(name.removesuffix(":commit"))
                case "POST", ["transactions", name] if name.endswith(":abort"):
                    return self._abort(name.removesuffix(":abort"))
        if "tidelog-transaction" in asked.headers:
            return self._stage(asked, names[1])
        return super().carry_out(asked)

    def _raise_epoch(self, name: str) -> int:
        for one in self.transactions.values():
            if one.transactional_id == name and one.state == "open":
                one.state = "fenced"
        self.epochs[name] = self.epochs.get(name, -1) + 1
        return self.epochs[name]

    def _open(self, name: str) -> FakeTransaction:
        one = self.transactions[name]
        if one.state == "fenced":
            raise Problem(409, "FENCED_PRODUCER")
        if one.state != "open":
            raise Problem(409, "TRANSACTION_NOT_OPEN")
        return one

    def _stage(self, asked: Asked, topic: str) -> tuple[int, dict[str, str], bytes]:
        with self.changed:
            one = self._open(asked.headers["tidelog-transaction"])
            assert asked.headers["tidelog-producer-id"] == one.producer_id
            assert asked.headers["tidelog-producer-epoch"] == str(one.epoch)
            records = records_of(topic, self._topic(topic).partition_count, None, asked)
            staged = one.staged.setdefault(topic, [])
            sequence = int(asked.headers["tidelog-producer-sequence"])
            if not self.changed.wait_for(lambda: sequence <= len(staged), self.sequence_wait_seconds):
                raise Problem(409, "SEQUENCE_OUT_OF_ORDER", retryable=True, expected_sequence=len(staged))
            if sequence < len(staged):
                return answer_json(202, {"staged": len(records), "duplicate": True})
            self._open(asked.headers["tidelog-transaction"])
            staged.append(asked)
            self.changed.notify_all()
            return answer_json(202, {"staged": len(records)})

    def _commit(self, name: str) -> tuple[int, dict[str, str], bytes]:
        one = self.transactions[name]
        if one.state != "committed":
            self._open(name)
            for topic, requests in sorted(one.staged.items()):
                found = self._topic(topic)
                records = [each for asked in requests for each in records_of(topic, found.partition_count, None, asked)]
                one.committed.append({"topic": topic, "partitions": places_of(found, records)})
            one.state = "committed"
            self.changed.notify_all()
        return answer_json(200, {"state": "committed", "topics": one.committed})

    def _abort(self, name: str) -> tuple[int, dict[str, str], bytes]:
        if self.transactions[name].state != "aborted":
            self._open(name).state = "aborted"
        return answer_json(200, {"state": "aborted"})
