"""Preferred gateways for requests about a topic, group or queue, learned in the background from ``GET /v1/cluster``.

1. Sending to owners saves a hop and conflicts. Any gateway accepts any request, so no request waits for this knowledge. It
   outlives the bootstrap addresses: one live gateway among the known ones keeps the client going, and names the others.
2. An advertised address is used only after the gateway of that id answered there for the same store. Behind a load balancer the
   address may lead nowhere, or to another server. The client then silently stays with the bootstrap addresses. A client with a
   token asks only addresses that it trusts with the token.
3. The client asks again after ``OWNERS_AGE_MS_MAX``, and soon after an address failed.
4. Records for a topic go to the topic's best gateway: they name no partition, and their sequence numbers are per topic. A fetch
   goes to the partition's owner, which has the newest records in memory. A fetch of several partitions goes to the best gateway
   of the topic with most of them. Calls about a group go to its coordinator.
5. A client with a zone fetches from a gateway of its zone, and sends records for topics at journals to one. Records for other
   topics go to their owner, since a gateway of the zone would only forward them.
6. Each request for the cluster has a connection of its own, which closing cuts, so it outlives the client by the connect
   timeout at most.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import msgspec

from log_format.cluster.preferred import preferred_gateway
from log_format.errors import DECODE_ERRORS
from tidelog import limits
from tidelog.errors import Unauthenticated
from tidelog.http.answer import AnswerLost, NeverSent
from tidelog.http.credentials import authorization
from tidelog.http.endpoints import Endpoint, Endpoints, connect

if TYPE_CHECKING:
    from tidelog.http.connection import Address


class RoutingKey(msgspec.Struct, frozen=True):
    """Subject of a request, which decides the preferred gateway. Gateways rank themselves by the same data."""

    name: str
    partition: int | None = None
    owners: int = 1
    """Number of gateways over which the topic's partitions are spread."""
    served_by_any: bool = False
    """Whether any gateway serves the request without forwarding it, so that the nearest is the best."""

    @classmethod
    def of_group(cls, group: str) -> RoutingKey:
        """Return the subject for a consumer group, whose name no topic can have."""
        return cls(f"groups/{group}")

    @classmethod
    def of_queue(cls, queue: str) -> RoutingKey:
        """Return the subject for a queue."""
        return cls(f"queues/{queue}")


class _Gateway(msgspec.Struct):
    id: str
    url: str
    zone: str | None = None


class _Cluster(msgspec.Struct):
    gateways: list[_Gateway]
    store: str | None
    """The store's URL; None if this client may not see it: then a matching gateway id is sufficient."""


_decode_cluster: Final = msgspec.json.Decoder(_Cluster).decode


class Owners:
    """One client's knowledge of the gateways. Thread-safe."""

    def __init__(
        self,
        endpoints: Endpoints,
        *,
        zone: str | None = None,
        age_ms_max: int = limits.OWNERS_AGE_MS_MAX,
        doubt_ms: int = limits.OWNERS_DOUBT_MS,
        timeout_ms: int = limits.OWNERS_TIMEOUT_MS,
    ) -> None:
        self._endpoints = endpoints
        self._age_ms_max = age_ms_max
        self._doubt_ms = doubt_ms
        self._timeout_ms = timeout_ms
        self._zone = zone
        self._known: dict[str, Endpoint | None] = {}
        self._near: frozenset[str] = frozenset()
        """Ids of the known gateways in the client's zone."""
        self._lock = threading.Lock()
        self._learning = False
        self._asking: Address | None = None
        self._closed = False
        self._learn_at_s = 0.0

    def endpoint_for(self, routing_key: RoutingKey) -> Endpoint | None:
        """Return the preferred gateway if it is reachable and not paused; None: any gateway will do."""
        self._learn_when_old()
        known = self._known
        if routing_key.served_by_any and (near := self._nearest(routing_key)) is not None:
            return near
        best = preferred_gateway(routing_key.name, known, owners=routing_key.owners, partition=routing_key.partition)
        endpoint = known[best] if best is not None else None
        return endpoint if endpoint is not None and endpoint.paused_ms() == 0 else None

    def _nearest(self, routing_key: RoutingKey) -> Endpoint | None:
        """Return the preferred one of this zone's reachable gateways."""
        known, near = self._known, self._near
        well = {name: one for name, one in known.items() if name in near and one is not None and one.paused_ms() == 0}
        best = preferred_gateway(routing_key.name, well, owners=routing_key.owners, partition=routing_key.partition)
        return None if best is None else well[best]

    def healthy(self) -> list[Endpoint]:
        """Return the known gateways that are not paused, this zone's first."""
        known, near = self._known, self._near
        names = sorted(known, key=lambda name: name not in near)
        return [one for name in names if (one := known[name]) is not None and one.paused_ms() == 0]

    def another(self) -> Endpoint | None:
        """Return a gateway that is not paused, for use when all bootstrap addresses are."""
        return next(iter(self.healthy()), None)

    def expire(self) -> None:
        """Record that an address failed: ask for the gateways again soon."""
        with self._lock:
            self._learn_at_s = min(self._learn_at_s, time.monotonic() + self._doubt_ms / 1000)

    def close(self, *, abort: bool) -> None:
        """Stop learning, cut the request under way, and close the connections."""
        with self._lock:
            self._closed = True
            known, self._known = self._known, {}
            asking = self._asking
        if asking is not None:
            asking.abort()
        for endpoint in known.values():
            if endpoint is not None:
                _close(endpoint, abort=abort)

    def _learn_when_old(self) -> None:
        if time.monotonic() < self._learn_at_s:
            return
        with self._lock:
            if self._learning or self._closed or time.monotonic() < self._learn_at_s:
                return
            self._learning = True
        threading.Thread(target=self._learn, name="tidelog-owners", daemon=True).start()

    def _learn(self) -> None:
        known: dict[str, Endpoint | None] | None = None
        near: frozenset[str] = frozenset()
        try:
            for asked in self._candidates():
                cluster = self._ask(asked.url)
                if cluster is not None:
                    gateways = cluster.gateways[: limits.GATEWAYS_KNOWN_MAX]
                    # A single gateway needs no choice if its address is a bootstrap address.
                    is_only = len(gateways) == 1 and self._endpoints.of_url(asked.url) is not None
                    known = {} if is_only else {one.id: self._reached(one, cluster) for one in gateways}
                    if self._zone is not None:
                        near = frozenset(one.id for one in gateways if one.zone == self._zone)
                    break
        finally:
            self._apply_cluster(known, near)

    def _candidates(self) -> list[Endpoint]:
        """Return the addresses to ask: a bootstrap address and the known gateways, which may outlive all bootstrap addresses."""
        given = self._endpoints.choose()
        learned = [one for one in self._known.values() if one is not None and one is not given]
        return sorted([given, *learned], key=Endpoint.paused_ms)[: limits.OWNERS_ASKED_MAX]

    def _apply_cluster(self, known: dict[str, Endpoint | None] | None, near: frozenset[str]) -> None:
        with self._lock:
            old = self._known
            if known is not None:
                self._known, self._near = known, near
            self._learning = False
            pause_ms = self._age_ms_max if known is not None else self._doubt_ms
            self._learn_at_s = time.monotonic() + pause_ms / 1000
            closed = self._closed
        given_up = (known or {}) if closed else old if known is not None else {}
        for endpoint in given_up.values():
            if endpoint is not None and (closed or endpoint not in self._known.values()):
                _close(endpoint, abort=False)

    def _reached(self, gateway: _Gateway, cluster: _Cluster) -> Endpoint | None:
        """Return an endpoint for the gateway if its address was verified before, or is now."""
        url = gateway.url.rstrip("/")
        bootstrap = self._endpoints.of_url(url)
        if bootstrap is not None:
            return bootstrap
        known = self._known.get(gateway.id)
        if known is not None and known.url == url:
            return known
        credentials = self._endpoints.credentials
        try:
            if not credentials.trusts(url, self._endpoints.urls):
                return None
            endpoint = Endpoint(url, credentials)
        except ValueError:
            return None
        seen = self._ask(url)
        if seen is not None and seen.store == cluster.store and any(one.id == gateway.id for one in seen.gateways):
            return endpoint
        endpoint.address.close()
        return None

    def _ask(self, url: str) -> _Cluster | None:
        """Return the cluster as seen by the gateway at ``url``; None without an answer, or after ``close``."""
        credentials = self._endpoints.credentials
        address = connect(url, credentials)
        with self._lock:
            if self._closed:
                return None
            self._asking = address
        try:
            headers = authorization(credentials.token())
            answer = address.exchange("GET", "/v1/cluster", body=None, headers=headers, timeout_ms=self._timeout_ms)
            return _decode_cluster(answer.body) if answer.status == 200 else None
        except (*DECODE_ERRORS, NeverSent, AnswerLost, Unauthenticated):
            return None
        finally:
            address.close()


def _close(endpoint: Endpoint, *, abort: bool) -> None:
    if abort:
        endpoint.address.abort()
    else:
        endpoint.address.close()
