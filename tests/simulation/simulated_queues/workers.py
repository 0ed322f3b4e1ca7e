"""Callers of a queue, written against the HTTP contract alone: they take records and settle them, in time or late, or never."""

from __future__ import annotations

from typing import Any

from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated_queues.ledger import Given, Ledger
from tests.simulation.simulated_service.coordinated_world import Around, CoordinatedWorld
from tests.simulation.simulated_service.network import Lost, Reply
from tests.simulation.simulated_service.service import Service

PATIENCE_MS = 20 * SECOND_MS


class Caller(Around[Ledger]):
    """What a worker has. ``skew_ms``: how wrong the clock of the gateway is that was asked last."""

    def __init__(self, world: CoordinatedWorld, ledger: Ledger, queue: str, lock_ms: int) -> None:
        super().__init__(world, ledger)
        self._queue = queue
        self.lock_ms = lock_ms
        self.skew_ms = 0

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply | Lost:
        """A request to the gateway that seems to coordinate the queue."""
        return self.call(self._queue, method, path, body, headers, patience_ms=PATIENCE_MS)

    def act(self, verb: str, body: Any, headers: dict[str, str] | None = None) -> Reply | Lost:
        """A call of the queue."""
        return self.ask("POST", f"/v1/queues/{self._queue}:{verb}", body, headers)

    def gateway_for(self, name: str) -> Service:
        """As ``Around``."""
        service = super().gateway_for(name)
        self.skew_ms = service.machine.wall_skew_ms
        return service


class Worker:
    """One caller. ``name`` is of its transactions, too."""

    def __init__(self, around: Caller, name: str) -> None:
        self._around = around
        self._name = name
        self._ledger = around.ledger
        self._in_hand: list[Given] = []

    def run(self) -> None:
        """Take and settle for some turns."""
        for _ in range(self._around.turns):
            self._around.think()
            self._receive()
            if self._around.rng.random() < 0.2:
                self._around.scheduler.sleep_ms(self._around.rng.randrange(2 * self._around.lock_ms))
            if self._around.rng.random() < 0.2:
                self._in_a_transaction()
            else:
                self._settle(self._around.rng.choice(("accept", "accept", "accept", "release", "reject", "renew")))

    def drain(self) -> int | None:
        """Take and accept what there is: how many; None where it failed."""
        self._in_hand.clear()
        found = self._receive(max_records=50, wait_ms=1_000)
        if found is None:
            return None
        self._settle("accept", all_of_it=True)
        return found

    def _receive(self, max_records: int | None = None, wait_ms: int | None = None) -> int | None:
        rng, around = self._around.rng, self._around
        lock_ms = around.lock_ms if rng.random() < 0.8 else 3 * around.lock_ms
        wish = {
            "max_records": max_records or rng.randrange(1, 5),
            "max_wait_ms": wait_ms if wait_ms is not None else rng.choice((0, 500)),
            "lock_ms": lock_ms,
            "begun_max": rng.randrange(3),
        }
        reply = around.act("receive", wish)
        if not isinstance(reply, Reply) or reply.status != 200:
            self._ledger.lost(wish["begun_max"])
            return None
        for at, one in enumerate(reply.body["records"]):
            place = (one["topic"], one["partition"], one["offset"], one["value"])
            until_ms = one["locked_until_ms"] - around.skew_ms
            given = self._ledger.given(
                place, one["lease"], one["delivery_count"], until_ms, lock_ms, is_begun=at < wish["begun_max"]
            )
            self._in_hand.append(given)
        return len(reply.body["records"])

    def _settle(self, action: str, *, all_of_it: bool = False) -> None:
        rng = self._around.rng
        chosen = list(self._in_hand) if all_of_it or rng.random() < 0.5 else self._in_hand[: rng.randrange(1, 4)]
        if not chosen:
            return
        more = {"release": {"begun": False}, "renew": {"begun": True}}.get(action, {}) if rng.random() < 0.5 else {}
        begun = more.get("begun", action != "renew")
        for attempt in range(3):
            lock_ms = self._around.lock_ms
            may_count = [self._ledger.sends(given, action, begun=begun, lock_ms=lock_ms) for given in chosen]
            wanted = [_settlement(one, action) | more for one in chosen]
            reply = self._around.act("settle", {"settlements": wanted})
            if isinstance(reply, Reply) and reply.status == 200:
                for given, counts, result in zip(chosen, may_count, reply.body["results"], strict=True):
                    until_ms = result.get("locked_until_ms", self._around.skew_ms) - self._around.skew_ms
                    self._ledger.settled(given, action, counts, result["settled"], until_ms, begun=begun)
                break
            if attempt or (not all_of_it and rng.random() < 0.5):
                break
            self._around.think()
        if action != "renew":
            self._in_hand = [given for given in self._in_hand if given not in chosen]

    def _in_a_transaction(self) -> None:
        around = self._around
        chosen, self._in_hand = self._in_hand, []
        if not chosen:
            return
        begun = around.ask("POST", "/v1/transactions", {"transactional_id": self._name, "timeout_ms": 20_000})
        if not isinstance(begun, Reply) or begun.status != 201:
            return
        transaction = begun.body["transaction_id"]
        may_count = [self._ledger.sends(given, "accept") for given in chosen]
        body = {"settlements": [_settlement(one, "accept") for one in chosen]}
        reply = around.act("settle", body, {"Tidelog-Transaction": transaction})
        if not isinstance(reply, Reply) or reply.status != 202:
            for given in chosen:
                self._ledger.freed(given)
            return
        held = [given for given, result in zip(chosen, reply.body["results"], strict=True) if result["settled"]]
        for given, counts in zip(chosen, may_count, strict=True):
            if given in held:
                self._ledger.settled(given, "hold", counts, True, 0)
                self._ledger.held_on(given)
        around.think()
        for given in held:
            self._ledger.freed(given)  # from here on the transaction may end
        verb = around.rng.choice(("commit", "commit", "abort"))
        ended = around.ask("POST", f"/v1/transactions/{transaction}:{verb}")
        if isinstance(ended, Reply) and ended.status == 200:
            self._ledger.told[f"transaction: {verb}"] += 1
            for given in held if verb == "commit" else ():
                self._ledger.accepted(given)


def _settlement(given: Given, action: str) -> dict[str, Any]:
    topic, partition, offset, _ = given.place
    return {"topic": topic, "partition": partition, "offset": offset, "lease": given.lease, "action": action}
