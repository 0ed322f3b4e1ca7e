"""The Kafka listener's bounds."""

from __future__ import annotations

from typing import Final

SMALL_FRAME_BYTES_MAX: Final = 1024 * 1024
"""Of every request but Produce."""
HEAD_BYTES: Final = 4 * 1024
"""Held for a request besides its frame: its entities, its answer."""
PRODUCE_FRAME_COPIES: Final = 2
"""The frame's bytes, and the records made of them."""
SMALL_FRAME_COPIES: Final = 8
"""A small frame's entities, as a multiple of its bytes."""
UNPROVED_FRAME_BYTES_MAX: Final = 64 * 1024
"""Of a client that has not proved its identity: a login is smaller."""
FRAME_GRACE_MS: Final = 2_000
FRAME_BYTES_PER_SECOND_MIN: Final = 1024 * 1024
"""While memory for requests is short: a frame that has begun longer ago, and comes more slowly, ends its connection. It holds the
memory of the whole frame, which others wait for."""
MEMORY_SHORT_PART: Final = 0.75
"""Of the memory for requests: so much in use is short."""
ORIGINALS_PART: Final = 0.5
"""Of the memory for requests: where more is in use, producers' bytes are not kept beside their records."""
REQUESTS_IN_FLIGHT_MAX: Final = 32
"""Of one connection: begun and not answered. Then the next frame waits in the socket."""
PRODUCES_IN_FLIGHT_MAX: Final = 4_096
"""Of one connection, as ``REQUESTS_IN_FLIGHT_MAX``: librdkafka sends a request for each partition, and each waits for its commit.
Their memory is reserved."""
JOINED_BYTES: Final = 64 * 1024
"""Answers that are ready together are sent together, until they have so many bytes."""
MEMORY_WAIT_MS_MAX: Final = 30_000
"""How long a frame waits for memory before its connection is closed: clients then come again."""
IDLE_MS: Final = 600_000
"""Kafka's ``connections.max.idle.ms``."""
