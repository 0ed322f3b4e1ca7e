"""Every bound of the SDK, with unit and reason. Defaults of constructor arguments are here, too.

The API's own bounds are in ``log_format.limits``.
"""

from __future__ import annotations

from typing import Final

from log_format.limits import REQUEST_BYTES_MAX

DEFAULT_URL: Final = "http://127.0.0.1:8080"
"""URL where ``tidelog serve`` listens; ``TIDELOG_URL`` and the constructors' ``bootstrap_servers`` override it."""

REQUEST_TIMEOUT_MS: Final = 30_000
"""Limit of one exchange, not counting the waiting time of a long poll."""

CONNECT_TIMEOUT_MS: Final = 5_000
"""Limit for one address to accept a connection before the next address is tried."""

IDLE_CONNECTION_MS_MAX: Final = 3_000
"""Idle time after which a connection is not reused.

Servers close idle connections (often after 5 s); a request sent at that moment is lost, and the client can't know whether the
server read it.
"""

IDLE_CONNECTIONS_MAX: Final = 8
"""Number of connections kept open per address."""

BACKOFF_FIRST_MS: Final = 100
"""Pause of an address after a failure; doubled after each further failure, with jitter."""

BACKOFF_LAST_MS: Final = 3_000
"""Longest pause, unless the gateway asks for a longer one by ``Retry-After``."""

SILENCE_MS: Final = 1_000
"""Time for the answer to a repeatable request to begin; after it the gateway is probed for life."""

SILENCE_PROBE_MS: Final = 1_000
"""Time that a living gateway may take to answer the probe."""

SILENCE_REST_MS: Final = 10_000
"""Pause of a gateway that did not answer the probe: by then the other gateways have noticed, too."""

SILENCE_IDLE_MS: Final = 10_000
"""Time without requests after which the probing thread ends."""

LATE_MS_MAX: Final = 100
"""Minimum time left for starting a request that changes something: cut off, its outcome would be unknown."""

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest answer without records, raw or decompressed; a page of topics has some megabytes."""

FETCHED_RECORD_BYTES: Final = 512
"""Maximum overhead of a fetched record in an answer, with eight short headers."""

JSON_ESCAPED_BYTES: Final = 6
"""Maximum size of one byte in JSON."""

ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Largest window that an answer may require of a decoder (RFC 9659)."""

TOKEN_BYTES_MAX: Final = 8 * 1024
"""Longest bearer token; gateways refuse longer ones."""

TOKEN_LOOK_MS: Final = 1_000
"""Interval between checks of a token file for changes."""

TOKEN_AGE_MS_MAX: Final = 30_000
"""Age at which a token from a callable is requested again."""

TOKEN_SETTLES_MS: Final = 6_000
"""Delay between the detection of a new token and its use: gateways know a change within 5 s."""

READ_BYTES: Final = 256 * 1024
"""Bytes read from the socket at a time; the deadline is checked between reads."""

OWNERS_AGE_MS_MAX: Final = 30_000
"""Age at which the list of gateways is requested again."""

OWNERS_DOUBT_MS: Final = 1_000
"""Delay before it is requested again after an address failed."""

OWNERS_ASKED_MAX: Final = 3
"""Number of gateways asked for the list, one after another, until one answers."""

OWNERS_TIMEOUT_MS: Final = 3_000
"""Limit of one such request; nothing waits for it."""

GATEWAYS_KNOWN_MAX: Final = 256
"""Number of gateways remembered."""

API_TIMEOUT_MS: Final = 60_000
"""Time for which an administrative call, or a consumer whose gateways fail, keeps retrying."""

METADATA_AGE_MS_MAX: Final = 300_000
"""Age at which a topic's partition count and settings are requested again."""

TOPICS_CACHED_MAX: Final = 10_000
"""Number of topics whose facts are cached; the oldest is evicted first."""

LINGER_MS: Final = 5
BATCH_BYTES: Final = 1024 * 1024
BUFFER_BYTES: Final = 32 * 1024 * 1024
MAX_IN_FLIGHT: Final = 5
MAX_BLOCK_MS: Final = 60_000
DELIVERY_TIMEOUT_MS: Final = 120_000

RECORD_OVERHEAD_BYTES: Final = 96
"""Size added for each record besides its key, value and headers: its overhead in JSON, and more than its overhead in Arrow."""

REQUEST_TARGET_BYTES: Final = 8 * 1024 * 1024
"""Size up to which a batch grows while it waits for the previous one.

It is the default ``flush.bytes`` of a topic, at which the gateway writes immediately, and half of the largest request.
"""

ARROW_RECORDS_MIN: Final = 64
"""Number of records below which JSON is smaller and faster to encode than Arrow."""

MURMUR2_CACHE_KEYS: Final = 65_536
"""Number of keys whose hash is cached: most topics have far fewer keys than records."""

MURMUR2_CACHE_KEY_BYTES_MAX: Final = 64
"""Longest cached key, which bounds the cache's memory; longer keys are hashed each time."""

POLL_TIMEOUT_MS: Final = 500
POLL_RECORDS_MAX: Final = 500
FETCH_BYTES: Final = 8 * 1024 * 1024

JSON_FETCH_RECORDS_MAX: Final = 20_000
"""Most records of a fetch as JSON, where a record takes several times the memory and becomes an object immediately."""


def fetched_bytes_max(bytes_max: int, records_max: int, *, as_json: bool) -> int:
    """Return the largest size of an answer to a fetch with these limits. The first record comes whatever its size."""
    factor = JSON_ESCAPED_BYTES if as_json else 2
    return factor * (bytes_max + REQUEST_BYTES_MAX) + FETCHED_RECORD_BYTES * records_max


SETTLEMENTS_MAX: Final = 10_000
"""Maximum number of settlements in one request, as in the API."""

RECEIVE_RECORDS: Final = 100
"""Default number of records that a queue consumer receives at a time, all of which are locked meanwhile."""

RECEIVE_BYTES: Final = 8 * 1024 * 1024

RENEWALS_PER_LOCK: Final = 3
"""Number of renewals per lock: a lock is renewed after a third of its time, so two requests may fail before it expires."""

ITERATION_WAIT_MS: Final = 10_000
"""Waiting time of one poll of an endless iteration; new partitions are looked up between polls."""

MAX_POLL_INTERVAL_MS: Final = 300_000
"""Time without a call for records after which a member leaves its group. Kafka's default."""

AUTO_COMMIT_INTERVAL_MS: Final = 5_000

GROUP_WAIT_MS: Final = 1_000
"""Waiting time of one fetch of a group member, which can hand partitions over only afterwards."""

CLOSE_MS: Final = 5_000
"""Time that closing a consumer waits for its last commit and its leave."""

PREFETCH_END_MS: Final = 1_000
"""Time that closing a consumer waits for the fetch-ahead thread, whose connection is cut."""

AIO_SLICE_MS: Final = 1_000
"""Time that an async call waits in a thread at a time: after this an abandoned thread ends."""

assert 2 * REQUEST_TARGET_BYTES <= REQUEST_BYTES_MAX
assert BATCH_BYTES <= REQUEST_TARGET_BYTES
assert 2 * REQUEST_TARGET_BYTES <= BUFFER_BYTES

HISTORY_RECORDS_MIN: Final = 10_000
"""Lag at which a consumer requests a plan, to read segments from the store itself."""

FIRST_FETCH_RECORDS: Final = 500
FIRST_FETCH_BYTES: Final = 64 * 1024
"""Limits of the first fetch at a new position by a consumer that may read from the store: little work for a gateway."""

HISTORY_BYTES_MIN: Final = 4 * 1024 * 1024
"""Stored bytes below which a plan is not worth the requests to the store."""

HISTORY_PLAN_BYTES: Final = 256 * 1024 * 1024
"""Stored bytes of one plan."""

HISTORY_PLAN_S_MAX: Final = 60
"""Age at which a plan is requested again: only then are records that were deleted since refused."""

HISTORY_AGAIN_S: Final = 10
"""Pause of a partition after a plan that was not worthwhile."""

HISTORY_REST_S: Final = 60
"""Time for which the gateway serves history after the store was unreachable."""

HISTORY_PLANS_MAX: Final = 1_000
"""Number of partitions whose plan is remembered."""

HISTORY_FOOTERS_BYTES: Final = 4 * 1024 * 1024
"""Memory for cached footers of segments."""
