"""Bounds of the Kafka listener."""

from __future__ import annotations

from typing import Final

SMALL_FRAME_BYTES_MAX: Final = 1024 * 1024
"""Largest frame of a request other than Produce."""
HEAD_BYTES: Final = 4 * 1024
"""Memory reserved for a request in addition to its frame: its entities and its answer."""
PRODUCE_FRAME_COPIES: Final = 2
"""Memory of a Produce request as a multiple of its frame: the frame's bytes, and the records decoded from them."""
SMALL_FRAME_COPIES: Final = 8
"""Memory of a small frame's entities, as a multiple of the frame's bytes."""
UNAUTHENTICATED_FRAME_BYTES_MAX: Final = 64 * 1024
"""Largest frame of a client that has not authenticated: a login is smaller."""
FRAME_GRACE_MS: Final = 2_000
FRAME_BYTES_PER_SECOND_MIN: Final = 1024 * 1024
"""Slowest transfer of a frame while request memory is short. A connection is closed if its frame began more than
``FRAME_GRACE_MS`` ago and arrives more slowly, because the memory reserved for the whole frame is withheld from other
requests."""
MEMORY_SHORT_SHARE: Final = 0.75
"""Part of the request memory above which memory counts as short."""
ORIGINALS_MEMORY_SHARE: Final = 0.5
"""Part of the request memory above which a producer's original bytes are no longer kept with its records."""
REQUESTS_IN_FLIGHT_MAX: Final = 32
"""Requests of one connection that have begun and are not answered. At this number the next frame is left in the socket."""
PRODUCES_IN_FLIGHT_MAX: Final = 4_096
"""Most Produce requests in flight on one connection: librdkafka sends one for each partition, and each waits for its commit.
Their memory is reserved."""
JOINED_BYTES: Final = 64 * 1024
"""Size up to which answers that are ready together are sent in one write."""
MEMORY_WAIT_MS_MAX: Final = 30_000
"""Longest time that a frame waits for memory. After it the connection is closed, and the client reconnects."""
IDLE_MS: Final = 600_000
"""Idle time after which a connection is closed: Kafka's ``connections.max.idle.ms``."""
