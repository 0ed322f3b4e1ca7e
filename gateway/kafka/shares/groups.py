"""One gateway's share groups, as its Kafka listener uses them."""

from __future__ import annotations

from gateway.forwarding.peer_queues import PeerQueues
from gateway.groups.bounds import SESSION_TIMEOUT_MS_DEFAULT
from gateway.kafka.shares.members import ShareMembers
from gateway.kafka.shares.sessions import ShareSessions
from gateway.kafka.shares.share_queues import ShareQueues
from gateway.log_engine import LogEngine


class ShareGroups:
    """Members, sessions and queues of share groups. Used on the event loop only."""

    def __init__(self, engine: LogEngine, peering: PeerQueues) -> None:
        self._memory = engine.queues.table
        self.members = ShareMembers(SESSION_TIMEOUT_MS_DEFAULT, self._memory)
        self.queues = ShareQueues(engine, peering)

    def new_sessions(self) -> ShareSessions:
        """Return the share sessions of a new connection."""
        return ShareSessions(self._memory)

    def leave(self, sessions: ShareSessions) -> None:
        """Release the acquired records of a connection that has ended."""
        for session in sessions.end():
            self.queues.release(session)
