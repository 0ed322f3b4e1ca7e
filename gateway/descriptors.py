"""Room for as many sockets as the gateway takes: a process that runs out of descriptors can't accept a probe either."""

from __future__ import annotations

import logging
import resource
from typing import Final

OTHERS: Final = 1024
"""Connections to the store and to other gateways, files, the operations listener."""

_log = logging.getLogger("gateway.descriptors")


def allow_descriptors(connections_max: int) -> None:
    """Raise the process's soft limit to what that many client connections need, if the hard one lets it; else say so.

    Up to twice ``connections_max`` are open at once: those past it are told why they are not served.
    """
    needed = 2 * connections_max + OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        _log.warning(
            "%d connections may need %d file descriptors, and the process may have %d: raise the limit (ulimit -Hn), or lower"
            " connections_max",
            connections_max,
            needed,
            allowed,
        )
