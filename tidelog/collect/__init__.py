"""The agent that follows files and sends their lines to a topic, each once: ``tidelog collect``.

``discovery`` finds files, and ``following`` knows which is which through rotation. ``split`` makes records of their bytes,
``batch`` a request of records. ``collector`` keeps the order of what is written down and what is sent; ``agent`` runs it. The
guarantee and its limits are in docs/collect.md.
"""

from __future__ import annotations

__all__: list[str] = []
