"""Limit of file descriptors, raised for the sockets of all clients: without free descriptors even a probe can't be accepted."""

from __future__ import annotations

import logging
import resource
from typing import Final

OTHER_DESCRIPTORS: Final = 1024
"""Descriptors for connections to the store and other gateways, for files and the operations listener."""

_log = logging.getLogger("gateway.process.descriptors")


def accepted_max(connections_max: int) -> int:
    """Return how many client connections may be open: twice ``connections_max``, since those beyond it get a refusal.

    Raises the process's soft limit of descriptors to that need. If the hard limit forbids it, it warns and returns fewer, so that
    a quarter of the descriptors remains for everything else.
    """
    wanted = 2 * connections_max
    needed = wanted + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (ValueError, OSError):
        # Some systems have a bound of their own below the hard limit.
        allowed = soft
    if allowed == needed:
        return wanted
    accepted = min(wanted, max(allowed - OTHER_DESCRIPTORS, allowed * 3 // 4))
    _log.warning(
        "%d file descriptors are too few for %d connections, which need %d: at most %d are accepted. Raise the limit"
        " (ulimit -Hn), or lower connections_max",
        allowed,
        connections_max,
        needed,
        accepted,
    )
    return accepted
