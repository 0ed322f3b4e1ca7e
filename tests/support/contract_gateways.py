"""The gateways that prove the contract: what a client is told depends neither on its rights nor on the gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.access import Client, Right, bootstrap
from tests.support.gateway_process import GatewayProcess, running_gateway, running_gateways
from tests.support.waiting import until

LEAST_RIGHTS = (
    *(Right(operation, "topic") for operation in ("Create", "Alter", "Delete", "Read", "Write")),
    *(Right(operation, "group") for operation in ("Read", "Alter", "Delete")),
    Right("Write", "transactional_id"),
    *(Right(operation, "subject") for operation in ("Read", "Write")),
    Right("Describe", "cluster"),
)
"""What the suite needs: no super user, and nothing of the cluster's administration."""
RANDOM = 3


class Caller(NamedTuple):
    """Where the gateway is, and the credential of the calls, if they need one."""

    url: str
    token: str | None = None


@contextmanager
def alone(directory: Path) -> Iterator[Caller]:
    """One gateway, without authentication."""
    with running_gateway(directory / "store", directory / "log") as gateway:
        yield Caller(gateway.url)


@contextmanager
def with_least_rights(directory: Path) -> Iterator[Caller]:
    """One gateway with ``auth=on``, and a caller with the rights that the suite needs."""
    first, settings = bootstrap(directory)
    with running_gateway(directory / "store", directory / "log", *settings) as gateway:
        operator = Client(gateway.url, first)
        with closing(operator.http):
            _, token = operator.token("User:conformance", LEAST_RIGHTS)
        yield Caller(gateway.url, token)


@contextmanager
def at_random(directory: Path) -> Iterator[Caller]:
    """One of three gateways, each of which passes requests on to one taken at random."""
    settings = ("--heartbeat-ms", "300", "--forwarding", "random")
    with running_gateways() as gateways:
        for number in range(RANDOM):
            gateways.append(GatewayProcess(directory / "store", directory / f"log-{number}", *settings))
        until(lambda: all(_gateway_count(gateway) == RANDOM for gateway in gateways))
        yield Caller(gateways[0].url)


def _gateway_count(gateway: GatewayProcess) -> int:
    return len(gateway.http.get("/v1/cluster").json()["gateways"])


KINDS: dict[str, Callable[[Path], AbstractContextManager[Caller]]] = {
    "alone": alone,
    "least-rights": with_least_rights,
    "random-forwarding": at_random,
}
