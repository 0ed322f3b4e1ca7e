"""Every bound of the SDK, with unit and reason. What a user may turn is a constructor argument; its default is here.

The contract's own bounds are in ``log_format.limits``.
"""

from __future__ import annotations

from typing import Final

from log_format.limits import REQUEST_BYTES_MAX

DEFAULT_URL: Final = "http://127.0.0.1:8080"
"""Where ``tidelog serve`` listens; ``TIDELOG_URL`` and the constructors' ``bootstrap_servers`` win over it."""

REQUEST_TIMEOUT_MS: Final = 30_000
"""How long one exchange may take, a long poll's own waiting not counted."""

CONNECT_TIMEOUT_MS: Final = 5_000
"""How long one address may take to accept a connection before the next is tried."""

IDLE_CONNECTION_MS_MAX: Final = 3_000
"""A connection idle for longer is not used again.

Servers close idle ones (often after 5 s); a request that meets the close is lost, and the client can't know whether the server
read it.
"""

IDLE_CONNECTIONS_MAX: Final = 8
"""Connections kept open per address."""

BACKOFF_FIRST_MS: Final = 100
"""An address that failed rests this long; twice as long after each further failure, with jitter."""

BACKOFF_LAST_MS: Final = 3_000
"""Longest rest, unless the gateway asks for a longer one by ``Retry-After``."""

SILENCE_MS: Final = 1_000
"""An answer that may be asked for again and does not begin within this has its gateway asked whether it lives."""

SILENCE_PROBE_MS: Final = 1_000
"""How long a living gateway may take to say so."""

SILENCE_REST_MS: Final = 10_000
"""A gateway that did not say so rests this long: by then the other gateways have noticed, too."""

SILENCE_IDLE_MS: Final = 10_000
"""The thread that watches ends when no request was under way for this long."""

LATE_MS_MAX: Final = 100
"""A request that changes something is not begun with less time left: cut off, its outcome would be unknown."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""An answer without records above this, as it comes or decompressed, is given up: a page of topics has some megabytes."""

FETCHED_RECORD_BYTES: Final = 512
"""What a fetched record takes in an answer besides its bytes, at most, with eight short headers."""

JSON_ESCAPED_BYTES: Final = 6
"""What a byte takes in JSON at worst."""

ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""The largest window that an answer may ask of a decoder (RFC 9659)."""

TOKEN_BYTES_MAX: Final = 8 * 1024
"""Longest bearer token; gateways refuse longer ones."""

TOKEN_LOOK_MS: Final = 1_000
"""How often a token file is looked at."""

TOKEN_AGE_MS_MAX: Final = 30_000
"""A callable is asked again for the token after this."""

TOKEN_SETTLES_MS: Final = 6_000
"""A new token is used this long after it was seen: gateways know a change within 5 s."""

READ_BYTES: Final = 256 * 1024
"""Taken from the socket at a time; the deadline is looked at between two."""

OWNERS_AGE_MS_MAX: Final = 30_000
"""The client asks again after this which gateways there are."""

OWNERS_DOUBT_MS: Final = 1_000
"""It asks again this long after an address failed."""

OWNERS_ASKED_MAX: Final = 3
"""Gateways that are asked one after the other until one answers."""

OWNERS_TIMEOUT_MS: Final = 3_000
"""How long one question of that kind may take; nothing waits for it."""

GATEWAYS_KNOWN_MAX: Final = 256
"""Gateways that are remembered."""

API_TIMEOUT_MS: Final = 60_000
"""How long an administrative call, or a consumer whose gateways fail, goes on trying."""

METADATA_AGE_MS_MAX: Final = 300_000
"""A topic's partition count and settings are asked for again after this."""

TOPICS_CACHED_MAX: Final = 10_000
"""Topics whose partition count is remembered; the oldest goes first."""

LINGER_MS: Final = 5
BATCH_BYTES: Final = 1024 * 1024
BUFFER_BYTES: Final = 32 * 1024 * 1024
MAX_IN_FLIGHT: Final = 5
MAX_BLOCK_MS: Final = 60_000
DELIVERY_TIMEOUT_MS: Final = 120_000

RECORD_OVERHEAD_BYTES: Final = 96
"""Counted for each record besides its key, value and headers: what it costs in JSON, and more than it costs in Arrow."""

REQUEST_TARGET_BYTES: Final = 8 * 1024 * 1024
"""A batch that waits for the one before it grows up to this.

It is the default ``flush.bytes`` of a topic, at which the gateway writes at once, and half of what a request may bring.
"""

ARROW_RECORDS_MIN: Final = 64
"""Below so many records a request is smaller and sooner made as JSON."""

MURMUR2_CACHE_KEYS: Final = 65_536
"""Keys whose hash is remembered: most topics have far fewer keys than records."""

MURMUR2_CACHE_KEY_BYTES_MAX: Final = 64
"""Longer keys are hashed each time, which bounds the memory of what is remembered."""

POLL_TIMEOUT_MS: Final = 500
POLL_RECORDS_MAX: Final = 500
FETCH_BYTES: Final = 8 * 1024 * 1024

JSON_FETCH_RECORDS_MAX: Final = 20_000
"""In JSON a record takes several times the memory, and becomes an object at once."""


def fetched_bytes_max(bytes_max: int, records_max: int, *, as_json: bool) -> int:
    """Bytes of the longest answer to a fetch with these limits: the first record comes whatever its size."""
    factor = JSON_ESCAPED_BYTES if as_json else 2
    return factor * (bytes_max + REQUEST_BYTES_MAX) + FETCHED_RECORD_BYTES * records_max


SETTLEMENTS_MAX: Final = 10_000
"""Settlements of one request (the contract's)."""

RECEIVE_RECORDS: Final = 100
"""Records that a consumer of a queue takes at once, unless it is told otherwise: all of them are locked meanwhile."""

RECEIVE_BYTES: Final = 8 * 1024 * 1024

RENEWALS_PER_LOCK: Final = 3
"""A lock is renewed when a third of it is over, so two requests may fail before it ends."""

ITERATION_WAIT_MS: Final = 10_000
"""How long one poll of an endless iteration waits; new partitions are looked for between two."""

MAX_POLL_INTERVAL_MS: Final = 300_000
"""After so long without being asked for records a member leaves its group. Kafka's."""

AUTO_COMMIT_INTERVAL_MS: Final = 5_000

GROUP_WAIT_MS: Final = 1_000
"""How long one fetch of a group's member waits for records: the member can hand partitions over only after it."""

CLOSE_MS: Final = 5_000
"""How long closing a consumer waits for its last commit and leave."""

PREFETCH_END_MS: Final = 1_000
"""How long closing a consumer waits for the thread that fetches ahead, whose connection is cut."""

AIO_SLICE_MS: Final = 1_000
"""How long an async call waits in a thread at a time: after this an abandoned thread ends."""

assert 2 * REQUEST_TARGET_BYTES <= REQUEST_BYTES_MAX
assert BATCH_BYTES <= REQUEST_TARGET_BYTES
assert 2 * REQUEST_TARGET_BYTES <= BUFFER_BYTES

HISTORY_RECORDS_MIN: Final = 10_000
"""A consumer this far behind asks for a plan, to read segments from the store by itself."""

FIRST_FETCH_RECORDS: Final = 500
FIRST_FETCH_BYTES: Final = 64 * 1024
"""Of the first fetch from a given offset, by a consumer that may read from the store: small for a gateway."""

HISTORY_BYTES_MIN: Final = 4 * 1024 * 1024
"""A plan of fewer stored bytes is not worth the requests to the store."""

HISTORY_PLAN_BYTES: Final = 256 * 1024 * 1024
"""Stored bytes of one plan."""

HISTORY_PLAN_S_MAX: Final = 60
"""A plan is asked for again after this: what was deleted since is then refused."""

HISTORY_AGAIN_S: Final = 10
"""After a plan that was of no use the partition asks for none this long."""

HISTORY_REST_S: Final = 60
"""After a store could not be reached the gateway serves history this long."""

HISTORY_PLANS_MAX: Final = 1_000
"""Partitions whose plan is remembered."""

HISTORY_FOOTERS_BYTES: Final = 4 * 1024 * 1024
"""Memory for footers of segments."""
