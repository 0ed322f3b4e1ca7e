"""Which gateway requests about a topic or a group should be sent to, learned from ``GET /v1/cluster`` beside the requests.

1. Owners save a hop and conflicts. Any gateway takes any request, so no request waits for what is learned here. What is learned
   outlives the bootstrap addresses: one live gateway among the learned ones keeps the client going, and names the others.
2. An advertised address is used only after the gateway of that id answered there for the same store. Behind a load balancer the
   address may lead nowhere, or to another server. The client then keeps to the bootstrap addresses, quietly. A client with a
   token asks only addresses that it trusts with it.
3. The client asks again after ``OWNERS_AGE_MS_MAX``, and soon after an address failed.
4. Records for a topic go to the topic's best gateway: they name no partition, and their numbers are the topic's. A fetch goes
   to the partition's owner, which has the newest records in memory. A fetch of several partitions goes to the best gateway of
   the topic with most of them. Calls about a group go to its coordinator.
5. A client that was told its zone fetches from a gateway of that zone, and sends records for topics at journals to one. Records
   for other topics would only be passed on from there, so they go to their owner as ever.
6. A question has a connection of its own, which closing cuts. So a question outlives the client by the time-out of connecting
   at most.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import msgspec

from log_format.cluster.preferred import preferred
from tidelog import limits
from tidelog.errors import Unauthenticated
from tidelog.http.answer import AnswerLost, NeverSent
from tidelog.http.credentials import authorization
from tidelog.http.endpoints import Endpoint, Endpoints, connect

if TYPE_CHECKING:
    from tidelog.http.connection import Address


class Owned(msgspec.Struct, frozen=True):
    """What a request is about, as far as it decides the preferred gateway. The gateways rank themselves by the same."""

    name: str
    partition: int | None = None
    owners: int = 1
    """Gateways over which the topic's partitions are spread."""
    is_anyones: bool = False
    """Any gateway serves it without passing records on: the nearest is the best."""

    @classmethod
    def of_group(cls, group: str) -> Owned:
        """A consumer group; no topic is called so."""
        return cls(f"groups/{group}")

    @classmethod
    def of_queue(cls, queue: str) -> Owned:
        """A queue."""
        return cls(f"queues/{queue}")


class _Gateway(msgspec.Struct):
    id: str
    url: str
    zone: str | None = None


class _Cluster(msgspec.Struct):
    gateways: list[_Gateway]
    store: str | None
    """None: this client may not see it. The gateway's id then has to be enough."""


_decode_cluster: Final = msgspec.json.Decoder(_Cluster).decode


class Owners:
    """What one client knows of the gateways. Safe from any thread."""

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
        """The known gateways of the client's zone."""
        self._lock = threading.Lock()
        self._learning = False
        self._asking: Address | None = None
        self._closed = False
        self._learn_at_s = 0.0

    def endpoint_for(self, about: Owned) -> Endpoint | None:
        """The preferred gateway, if it can be reached from here and does not rest; None: any will do."""
        self._learn_when_old()
        known = self._known
        if about.is_anyones and (near := self._nearest(about)) is not None:
            return near
        best = preferred(about.name, known, owners=about.owners, partition=about.partition)
        endpoint = known[best] if best is not None else None
        return endpoint if endpoint is not None and endpoint.resting_ms() == 0 else None

    def _nearest(self, about: Owned) -> Endpoint | None:
        """The preferred one of the gateways of this zone that can be reached."""
        known, near = self._known, self._near
        well = {name: one for name, one in known.items() if name in near and one is not None and one.resting_ms() == 0}
        best = preferred(about.name, well, owners=about.owners, partition=about.partition)
        return None if best is None else well[best]

    def well(self) -> list[Endpoint]:
        """The known gateways that do not rest, those of this zone first."""
        known, near = self._known, self._near
        names = sorted(known, key=lambda name: name not in near)
        return [one for name in names if (one := known[name]) is not None and one.resting_ms() == 0]

    def another(self) -> Endpoint | None:
        """A gateway that does not rest, for when all bootstrap addresses do."""
        return next(iter(self.well()), None)

    def doubt(self) -> None:
        """Note that an address failed: ask again soon."""
        with self._lock:
            self._learn_at_s = min(self._learn_at_s, time.monotonic() + self._doubt_ms / 1000)

    def close(self, *, abort: bool) -> None:
        """Learn no more, cut the question under way, and close the connections."""
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
            for asked in self._to_ask():
                cluster = self._ask(asked.url)
                if cluster is not None:
                    gateways = cluster.gateways[: limits.GATEWAYS_KNOWN_MAX]
                    # A single gateway needs no choice, as long as it is at an address that was given.
                    is_only = len(gateways) == 1 and self._endpoints.of_url(asked.url) is not None
                    known = {} if is_only else {one.id: self._reached(one, cluster) for one in gateways}
                    if self._zone is not None:
                        near = frozenset(one.id for one in gateways if one.zone == self._zone)
                    break
        finally:
            self._take_in(known, near)

    def _to_ask(self) -> list[Endpoint]:
        """The addresses to ask: a bootstrap address, and after it the learned gateways, which may outlive all bootstrap
        addresses.
        """
        given = self._endpoints.choose()
        learned = [one for one in self._known.values() if one is not None and one is not given]
        return sorted([given, *learned], key=Endpoint.resting_ms)[: limits.OWNERS_ASKED_MAX]

    def _take_in(self, known: dict[str, Endpoint | None] | None, near: frozenset[str]) -> None:
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
        """An endpoint for the gateway, proved before or now."""
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
        """The answer of the gateway there; None: it gave none, or this client was closed."""
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
        except (NeverSent, AnswerLost, Unauthenticated, msgspec.DecodeError):
            return None
        finally:
            address.close()


def _close(endpoint: Endpoint, *, abort: bool) -> None:
    if abort:
        endpoint.address.abort()
    else:
        endpoint.address.close()
