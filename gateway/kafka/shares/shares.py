"""One gateway's share groups, as its Kafka listener has them."""

from __future__ import annotations

from gateway.forwarding.queue_peers import QueuePeering
from gateway.groups.bounds import SESSION_TIMEOUT_MS_DEFAULT
from gateway.kafka.shares.members import ShareMembers
from gateway.kafka.shares.queues import SharedQueues
from gateway.kafka.shares.sessions import ShareSessions
from gateway.log_engine import LogEngine


class Shares:
    """Belongs to the event loop."""

    def __init__(self, engine: LogEngine, peering: QueuePeering) -> None:
        self._memory = engine.queues.table
        self.members = ShareMembers(SESSION_TIMEOUT_MS_DEFAULT, self._memory)
        self.queues = SharedQueues(engine, peering)

    def sessions(self) -> ShareSessions:
        """For a new connection."""
        return ShareSessions(self._memory)

    def leave(self, sessions: ShareSessions) -> None:
        """The connection is over: what its sessions have is released."""
        for session in sessions.end():
            self.queues.give_back(session)
