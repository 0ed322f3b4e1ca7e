"""Moves topics between their own commits and journals while everything else goes on, by ``PATCH`` as an operator would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tests.torture.tortured.clients import Client

MODES = ("own", "shared", "auto")


class ModeChanger:
    """``pace_seconds``: between two moves, on average."""

    def __init__(self, client: Client, topics: Collection[str], pace_seconds: float) -> None:
        self._client = client
        self._topics = list(topics)
        self._pace_seconds = pace_seconds
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """One move after another until stopped. What is refused or not answered is not repeated."""
        client = self._client
        while not client.stopping.wait(client.rng.uniform(0, 2 * self._pace_seconds)):
            mode = client.rng.choice(MODES)
            reply = client.call("PATCH", f"/v1/topics/{client.rng.choice(self._topics)}", _mode(mode))
            what = mode if reply.status == 200 else "in doubt" if reply.in_doubt else "refused"
            self.counts[f"commit.mode: {what}"] += 1

    def settle(self) -> list[str]:
        """Give every topic its own commits, so that its table has everything; what went wrong."""
        replies = {
            topic: self._client.insist("PATCH", f"/v1/topics/{topic}", _mode("own"))[0] for topic in self._topics
        }
        return [
            f"{topic} did not leave its journal: {reply}" for topic, reply in replies.items() if reply.status != 200
        ]


def _mode(mode: str) -> dict[str, dict[str, str]]:
    return {"config": {"commit.mode": mode}}
