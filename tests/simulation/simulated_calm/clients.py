"""What clients ask for, at random: every kind of request, small, many at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.simulated_calm.world import CalmWorld

TOPICS = {"t0": 1, "t1": 2, "t2": 3}
FLUSH_MS = (0, 5, 50)
CLIENTS = 8
TURNS = 8
Json = dict[str, Any]


def prepare(world: CalmWorld) -> None:
    """Make the topics, then begin the clients."""
    for (name, partition_count), flush_ms in zip(TOPICS.items(), FLUSH_MS, strict=True):
        config = {"flush.ms": flush_ms} | ({"owners": 2} if partition_count == 3 else {})
        body = {"name": name, "partition_count": partition_count, "config": config}
        world.call("POST", "/v1/topics", body, leaves=False)
    for _ in range(CLIENTS):
        world.begin_client()


class Client:
    """One after the other."""

    def __init__(self, world: CalmWorld) -> None:
        self._world = world
        self._rng = world.rng
        self._call = world.call

    def run(self) -> None:
        """Ask, and pause now and then."""
        acts = (
            self._produce, self._produce_numbered, self._fetch, self._hand_over, self._administer, self._be_member,
            self._commit, self._transact, self._transact_at_once,
        )  # fmt: skip
        for _ in range(TURNS):
            self._rng.choice(acts)()
            if self._rng.random() < 0.5:
                self._world.scheduler.sleep_ms(self._rng.choice((0, 1, 5, 30, 200)))

    def _topic(self) -> str:
        return self._rng.choice(list(TOPICS))

    def _records(self) -> Json:
        return {"records": [{"value": "v"}] * self._rng.randrange(3)}

    def _producer_headers(self) -> dict[str, str]:
        reply = self._call("POST", "/v1/producers", leaves=False)
        assert reply is not None
        return {"Tidelog-Producer-Id": reply.body["producer_id"], "Tidelog-Producer-Epoch": "0"}

    def _produce(self) -> None:
        topic, chance = self._topic(), self._rng.random()
        if chance < 0.5:
            self._call("POST", f"/v1/topics/{topic}/records", self._records())
        elif chance < 0.9:
            partition = self._rng.randrange(TOPICS[topic])
            self._call("POST", f"/v1/topics/{topic}/partitions/{partition}/records", self._records())
        else:
            self._call("POST", f"/v1/topics/{topic}/records?acks=0", self._records())

    def _produce_numbered(self) -> None:
        """Several in flight, out of order; a client that leaves comes again."""
        headers, path = self._producer_headers(), f"/v1/topics/{self._topic()}/records"
        numbers = list(range(self._rng.randrange(1, 5)))
        self._rng.shuffle(numbers)
        for number in numbers:
            self._world.act(partial(self._until_answered, path, self._records(), headers, number))

    def _until_answered(self, path: str, body: Json, headers: dict[str, str], number: int) -> None:
        while self._call("POST", path, body, {**headers, "Tidelog-Producer-Sequence": str(number)}) is None:
            pass

    def _fetch(self) -> None:
        topic, wait_ms = self._topic(), self._rng.choice((0, 100, 1_000))
        if self._rng.random() < 0.5:
            where = f"/v1/topics/{topic}/partitions/0/records?offset={self._rng.choice(('latest', 'earliest'))}"
            self._call("GET", f"{where}&max_wait_ms={wait_ms}", wait_ms=wait_ms)
        else:
            partitions = [{"topic": topic, "partition": one, "offset": "latest"} for one in range(TOPICS[topic])]
            self._call("POST", "/v1/fetch", {"partitions": partitions, "max_wait_ms": wait_ms}, wait_ms=wait_ms)

    def _hand_over(self) -> None:
        """A poll that would wait for half a minute, and a record for it."""
        where = "/v1/topics/t0/partitions/0"
        ends = self._call("GET", f"{where}/offsets", leaves=False)
        assert ends is not None
        poll = f"{where}/records?offset={ends.body['high_watermark']}&max_wait_ms=30000"
        self._world.act(partial(self._call, "GET", poll))
        self._world.scheduler.sleep_ms(self._rng.randrange(60))
        self._call("POST", f"{where}/records", {"records": [{"value": "v"}]}, leaves=False)

    def _administer(self) -> None:
        name = f"x{self._rng.randrange(3)}"
        method, path, body = self._rng.choice(
            (
                ("POST", "/v1/topics", {"name": name, "config": {"flush.ms": 0}}),
                ("DELETE", f"/v1/topics/{name}", None),
                ("GET", "/v1/topics", None),
                ("PATCH", f"/v1/topics/{name}", {"config": {"flush.ms": 10}}),
                ("POST", f"/v1/topics/{name}/records", self._records()),
                ("POST", f"/v1/topics/{name}:delete-records", {"before": [{"partition": 0, "offset": -1}]}),
                ("GET", "/metrics-of-nobody", None),
            )
        )
        self._call(method, path, body)

    def _be_member(self) -> None:
        group = f"/v1/groups/g{self._rng.randrange(3)}"
        joining: Json = {"topics": self._rng.sample(list(TOPICS), 2), "session_timeout_ms": 10_000}
        if self._rng.random() < 0.3:
            joining["instance_id"] = f"i{self._rng.randrange(2)}"
        reply = self._call("POST", f"{group}/members", joining)
        if reply is None or reply.status != 201:
            return
        member_id, generation = reply.body["member_id"], reply.body["generation"]
        for _ in range(self._rng.randrange(1, 5)):
            wait_ms = self._rng.choice((0, 100, 1_000))
            poll = {"member_id": member_id, "generation": generation, "max_wait_ms": wait_ms}
            reply = self._rng.choice(
                (
                    partial(self._call, "POST", f"{group}/poll", poll, wait_ms=wait_ms),
                    partial(self._call, "POST", f"{group}/members/{member_id}/heartbeat", {"generation": generation}),
                )
            )()
            if reply is None:
                continue
            if reply.status != 200:
                return
            generation = reply.body["generation"]
            read = [one for one in reply.body.get("partitions", ()) if "error" not in one]
            offsets = [
                {"topic": one["topic"], "partition": one["partition"], "offset": one["next_offset"]} for one in read
            ]
            self._call("PUT", f"{group}/offsets", {"offsets": offsets, **_by(member_id, generation)})
        if self._rng.random() < 0.7:
            self._call("DELETE", f"{group}/members/{member_id}")

    def _commit(self) -> None:
        group = f"/v1/groups/s{self._rng.randrange(3)}"
        method, path, body = self._rng.choice(
            (
                ("PUT", f"{group}/offsets", {"offsets": [_OFFSET]}),
                ("GET", f"{group}/offsets", None),
                ("GET", f"{group}/lag", None),
                ("POST", f"{group}/offsets:reset", {"topics": ["t0"], "to": "latest"}),
                ("DELETE", group, None),
            )
        )
        self._call(method, path, body)

    def _transact(self) -> None:
        name = f"tx{self._rng.randrange(4)}" if self._rng.random() < 0.5 else f"own{self._rng.getrandbits(64)}"
        begun = self._call("POST", "/v1/transactions", {"transactional_id": name}, leaves=False)
        assert begun is not None
        if begun.status != 201:
            return
        path = f"/v1/transactions/{begun.body['transaction_id']}"
        for _ in range(self._rng.randrange(3)):
            if self._rng.random() < 0.7:
                headers = {"Tidelog-Transaction": begun.body["transaction_id"]}
                self._call("POST", f"/v1/topics/{self._topic()}/records", self._records(), headers)
            else:
                self._call("POST", f"{path}/offsets", self._group_offsets())
        self._call("POST", f"{path}:{self._rng.choice(('commit', 'commit', 'commit', 'abort'))}")
        self._call("GET", path)

    def _transact_at_once(self) -> None:
        body: Json = {"topics": [{"topic": topic, **self._records()} for topic in self._rng.sample(list(TOPICS), 2)]}
        if self._rng.random() < 0.4:
            body["group_offsets"] = [self._group_offsets()]
        if self._rng.random() < 0.5:
            self._call("POST", "/v1/records", body)
            return
        headers = self._producer_headers()
        for number in range(self._rng.randrange(1, 4)):
            self._world.act(partial(self._until_answered, "/v1/records", body, headers, number))

    def _group_offsets(self) -> Json:
        return {"group": f"s{self._rng.randrange(3)}", "offsets": [_OFFSET]}


_OFFSET: Json = {"topic": "t0", "partition": 0, "offset": 0}


def _by(member_id: str, generation: int) -> Json:
    return {"member_id": member_id, "generation": generation}
