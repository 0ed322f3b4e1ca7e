"""Every bound of the agent, with unit and reason."""

from __future__ import annotations

from typing import Final

from log_format.limits import REQUEST_BYTES_MAX

REQUEST_COST: Final = 8 * 1024 * 1024
"""A request is full at so many bytes of values, keys and headers: the default ``flush.bytes``, at which a
gateway writes at once."""

BLOCK_BYTES: Final = 1024 * 1024
"""Bytes taken from one file before the next file's turn, so that a large backlog does not hold up the rest."""

RECORD_BYTES_MIN: Final = 1024
"""What ``max.message.bytes`` must be; with less, requests would be headers mostly."""

VALUE_BYTES_MIN: Final = 256
"""Bytes that a value may have however long its file's path is."""

HEAD_BYTES: Final = 256
"""First bytes by which a file is recognised: a line or two with their times."""

TAIL_BYTES: Final = 256
"""Bytes before a position that are compared before reading goes on there."""

MARKS_MAX: Final = 32
"""Places in a file that are remembered, about 100 bytes each: a copy that ends before what was read is recognised by them."""

COPY_TOLD_AFTER_S: Final = 60.0
"""How long a file may be a copy in the making, or a compressed one without its end. After that the agent says so."""

OPEN_FILES_MAX: Final = 512
"""Files held open, half of what a process may have open on most systems."""

FILES_MAX: Final = 20_000
"""Files remembered; each takes about 700 bytes of the state file, which is written with each request."""

SCAN_INTERVAL_S: Final = 1.0
"""How often the patterns are matched again."""

POLL_INTERVAL_S: Final = 0.2
"""How often the sizes of open files are looked at."""

GONE_CLOSED_AFTER_S: Final = 300.0
"""A file that is not found any more (renamed, deleted) is held open so long after its last growth: its writer may
write on."""

GONE_FORGOTTEN_AFTER_MS: Final = 7 * 86_400_000
"""How long what is gone is remembered, to know its compressed copy again: weekly rotation compresses a week later."""

COPY_WAIT_S: Final = 5.0
"""How long the agent looks for bytes that were sent and are not where they were: a copy of their file may be in the making."""

STOP_WAIT_S: Final = 20.0
"""How long a stop waits for the answer to the request under way. Nothing is lost without it: the next run asks again."""

FIRST_ROUND_MS: Final = 1_000
"""How long the agent tries gateways before it reports that none takes requests."""

ROUND_MS: Final = 60_000
"""One round of tries after that: a ``Retry-After`` up to this is kept to."""

MISSING_SHOWN_MAX: Final = 1_000
"""Ranges named in one report of bytes that may be missing."""

assert REQUEST_COST + BLOCK_BYTES + REQUEST_BYTES_MAX // 8 < REQUEST_BYTES_MAX
