"""The agent that follows files and sends each of their lines once to a topic: ``tidelog collect``.

``discovery`` finds files, and ``file_follower`` identifies them through rotation. ``split`` converts their bytes to records,
``batch`` collects records into a request. ``collector`` orders writing the state and sending; ``agent`` runs it. The guarantee
and its limits are in docs/collect.md.
"""

from __future__ import annotations

__all__: list[str] = []
