"""Every bound of the agent, with unit and reason."""

from __future__ import annotations

from typing import Final

from log_format.limits import REQUEST_BYTES_MAX

REQUEST_COST: Final = 8 * 1024 * 1024
"""Bytes of values, keys and headers at which a request is full: the default ``flush.bytes``, at which a gateway writes
immediately."""

BLOCK_BYTES: Final = 1024 * 1024
"""Bytes read from one file before the next file's turn, so that a large backlog does not delay the others."""

RECORD_BYTES_MIN: Final = 1024
"""Minimum ``max.message.bytes``; with less, requests would consist mostly of headers."""

VALUE_BYTES_MIN: Final = 256
"""Bytes that a value may always have, however long its file's path is."""

HEAD_BYTES: Final = 256
"""First bytes by which a file is recognized: a line or two with their times."""

TAIL_BYTES: Final = 256
"""Bytes before a position that are compared before reading continues there."""

MARKS_MAX: Final = 32
"""Places remembered in a file, about 100 bytes each, by which a copy that ends before the read position is recognized."""

COPY_TOLD_AFTER_S: Final = 60.0
"""Time for which a file may be a copy in progress, or a compressed file without its end, before the agent reports it."""

OPEN_FILES_MAX: Final = 512
"""Files held open: half of the usual limit of a process."""

FILES_MAX: Final = 20_000
"""Files remembered; each takes about 700 bytes of the state file, which is written with each request."""

SCAN_INTERVAL_S: Final = 1.0
"""Interval at which the patterns are matched."""

POLL_INTERVAL_S: Final = 0.2
"""Interval at which the sizes of open files are checked."""

GONE_CLOSED_AFTER_S: Final = 300.0
"""Time since its last growth for which a missing (renamed, deleted) file is held open: its writer may continue."""

GONE_FORGOTTEN_AFTER_MS: Final = 7 * 86_400_000
"""Time for which a missing file is remembered, to recognize its compressed copy: weekly rotation compresses a week later."""

COPY_WAIT_S: Final = 5.0
"""Time for which the agent looks for sent bytes that are no longer in their file: a copy may be in progress."""

STOP_WAIT_S: Final = 20.0
"""Time for which a stop waits for the answer to the request in flight. Nothing is lost without it: the next run asks again."""

FIRST_ROUND_MS: Final = 1_000
"""Time for which the agent tries gateways before it reports that none accepts requests."""

ROUND_MS: Final = 60_000
"""Length of later rounds of attempts: a ``Retry-After`` up to this is respected."""

MISSING_SHOWN_MAX: Final = 1_000
"""Ranges named in one report of bytes that may be missing."""

assert REQUEST_COST + BLOCK_BYTES + REQUEST_BYTES_MAX // 8 < REQUEST_BYTES_MAX
