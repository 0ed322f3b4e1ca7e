"""Deletes a topic and makes it anew under its name, again and again, and notes when each incarnation came and went.

With Kafka's listeners some deletions name the topic by its id. Now and then one names an incarnation that is gone, as a client
does that lost its answer: it must be refused, and the present topic must stay.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Closed, Wire
from tests.torture.tortured.clients import Client, Reply
from tests.torture.tortured.renewed_history import Life, RenewedHistory

DOUBT_SECONDS = 90.0
"""A request in doubt may be held by a frozen gateway, or behind a store that does not answer: it happens within so long."""
PAUSES_SECONDS = (0.0, 0.0, 0.0, 0.5, 2.0)
"""Between a deletion and the creation after it."""


class TopicMaker:
    """``pace_seconds``: how long a topic lives on average. ``kafka``: addresses of listeners. Belongs to one thread."""

    def __init__(
        self,
        client: Client,
        topic: dict[str, Any],
        history: RenewedHistory,
        *,
        pace_seconds: float,
        rest_seconds: float,
        kafka: Sequence[str],
    ) -> None:
        """``topic``: what the topic is made of, its name too. ``rest_seconds``: within so long happens what gateways hold, once
        nothing is done to them any more."""
        self._client = client
        self._topic = topic
        self._path = f"/v1/topics/{topic['name']}"
        self._history = history
        self._pace_seconds = pace_seconds
        self._rest_seconds = rest_seconds
        self._kafka = kafka
        self._alive_at = 0.0
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def begin(self) -> None:
        """The first incarnation."""
        self._create(time.monotonic())

    def run(self) -> None:
        """One incarnation after another until stopped; in the end there is one, and no request in doubt can happen any more."""
        client = self._client
        while not client.stopping.wait(client.rng.uniform(0.3, 2 * self._pace_seconds)):
            if self._is_there() and client.rng.random() < 0.3:
                self._delete_a_former_one()
            if self._is_there() and self._delete():
                client.stopping.wait(client.rng.choice(PAUSES_SECONDS))
                self._create(self._history.lives[-1].died[0])
        if any(time.monotonic() - at < DOUBT_SECONDS for at in self._history.doubts):
            time.sleep(self._rest_seconds)
        self._is_there()

    def _is_there(self) -> bool:
        """Look whether the last incarnation is there. One that went by itself is a failure, unless a request was in doubt."""
        asked = time.monotonic()
        reply, _, _ = self._client.insist("GET", self._path)
        life = self._history.lives[-1]
        if reply.status == 200 and reply.body["topic_id"] == life.topic_id:
            self._alive_at = asked
            return True
        if reply.status != 200 and reply.code != "UNKNOWN_TOPIC":
            return False
        if not any(asked - at < DOUBT_SECONDS for at in self._history.doubts):
            what = reply.body["topic_id"] if reply.status == 200 else "gone"
            self.failures.append(f"{life.topic_id} is {what}, and nobody has deleted it")
        life.died = (min(life.died[0], self._alive_at), time.monotonic())
        self._create(life.died[0])
        return False

    def _create(self, since: float) -> None:
        """``since``: when a request in doubt can have made it already."""
        reply, attempts, doubt = self._client.insist("POST", "/v1/topics", self._topic)
        if reply.code == "TOPIC_ALREADY_EXISTS":  # an earlier try, whose settings were changed meanwhile
            reply, _, _ = self._client.insist("GET", self._path)
        if attempts > 1 or doubt:
            self._history.doubts.append(time.monotonic())
        if reply.status not in {200, 201}:
            self.counts["renewed: a creation failed"] += 1
            return
        lives, now = self._history.lives, time.monotonic()
        if not lives or reply.body["topic_id"] != lives[-1].topic_id:
            self._alive_at = now
            lives.append(Life(topic_id=reply.body["topic_id"], born=(since, now)))

    def _delete(self) -> bool:
        """Whether the last incarnation is gone now."""
        life, started = self._history.lives[-1], time.monotonic()
        was, life.died = life.died, (min(life.died[0], started), life.died[1])
        by_id = bool(self._kafka) and self._client.rng.random() < 0.5
        outcome = self._delete_by_id(life.topic_id) if by_id else _outcome(self._client.call("DELETE", self._path))
        self.counts[f"deletions{' by id' if by_id else ''}: {outcome}"] += 1
        if outcome == "refused":
            life.died = was
        elif outcome == "yes":
            life.died = (life.died[0], time.monotonic())
        else:
            self._history.doubts.append(time.monotonic())
        return outcome == "yes"

    def _delete_a_former_one(self) -> None:
        lives = self._history.lives
        if not self._kafka or len(lives) < 2:
            return
        former = self._client.rng.choice(lives[-4:-1])
        outcome = self._delete_by_id(former.topic_id)
        self.counts[f"deletions by a former id: {outcome}"] += 1
        if outcome == "yes":
            self.failures.append(f"a deletion of {former.topic_id}, which was gone, is answered as done")

    def _delete_by_id(self, topic_id: str) -> str:
        """``yes``, ``refused`` or ``unknown``."""
        address = self._client.rng.choice(self._kafka)
        with contextlib.suppress(OSError, Closed), Wire(address, seconds=10) as wire:
            named = {"name": None, "topic_id": uuid.UUID(topic_id)}
            (told,) = wire.call("delete_topics", 6, topics=[named], timeout=10_000).responses
            if told.error_code is KafkaError.none:
                return "yes"
            return "refused" if told.error_code is KafkaError.unknown_topic_id else "unknown"
        return "unknown"


def _outcome(reply: Reply) -> str:
    if 200 <= reply.status < 300:
        return "yes"
    return "unknown" if reply.in_doubt else "refused"
