"""Choosing the preferred live gateway for a topic: highest random weight, the same in every gateway and every client.

Each (gateway, topic) has a weight: the first 8 bytes of BLAKE2b over ``gateway id, 0x00, topic``. The highest weight wins. A new
gateway takes only the topics for which it has the highest weight, a leaving one gives up only its own, and there is no table to
keep. The ranking is a hint against conflicts. Put-if-absent decides: gateways that see different peers are only slower.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM Transactions on Networking 1998.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable


def rank_gateways(topic: str, gateway_ids: Iterable[str], count: int) -> list[str]:
    """Return the best ``count`` gateways for ``topic``, best first; fewer if there are fewer. Input order does not matter."""
    weighed = ((_weight(gateway_id, topic), gateway_id) for gateway_id in gateway_ids)
    return [gateway_id for _, gateway_id in heapq.nlargest(count, weighed)]


def preferred_gateway(
    topic: str, gateway_ids: Iterable[str], *, owners: int = 1, partition: int | None = None
) -> str | None:
    """Return the gateway that should commit to the topic; None without gateways.

    With ``owners`` above 1, partition ``p`` belongs to the gateway of rank ``p modulo owners``. A request without a partition
    belongs to the best one.
    """
    best = rank_gateways(topic, gateway_ids, owners)
    if not best:
        return None
    return best[0] if partition is None else best[partition % len(best)]


def _weight(gateway_id: str, topic: str) -> bytes:
    return hashlib.blake2b(f"{gateway_id}\0{topic}".encode(), digest_size=8).digest()
