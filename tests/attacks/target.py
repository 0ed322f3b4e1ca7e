"""What is attacked: a gateway of its own with ``auth=on``, as its operator and as an attacker with a token see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.access import Client, Right, bootstrap, by
from tests.support.gateway_process import GatewayProcess

RIGHTS = (
    Right("All", "topic", "t", "prefix"),
    Right("All", "group", "g", "prefix"),
    Right("All", "transactional_id", "x", "prefix"),
)
"""The attacker's: whatever is its own."""


@dataclass(frozen=True, slots=True)
class Target:
    """``gateway.http`` shows the attacker's token. ``store`` is a directory."""

    gateway: GatewayProcess
    operator: Client
    token: str
    store: Path
    directory: Path
    until_end: ExitStack
    """What else a row starts ends with the target."""


Attack = Callable[[], object]
"""Raises ``AssertionError`` where it does what it must not. It may be called again."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the list of what was found. ``prepare`` makes the attack. ``settings``: of the gateway."""

    number: int
    what: str
    prepare: Callable[[Target], Attack]
    settings: Sequence[str] = ()
    is_seen_by_operators: bool = False
    """Whether ``/healthz`` is measured at the operations listener: clients' own is what is attacked."""


@contextmanager
def target(directory: Path, settings: Sequence[str]) -> Iterator[Target]:
    """A gateway for one row."""
    first, access = bootstrap(directory)
    store = directory / "store"
    common = ("--heartbeat-ms", "200", "--ops-port", "0")
    gateway = GatewayProcess(store, directory / "log", *access, *common, *settings)
    try:
        operator = Client(gateway.url, first)
        with operator.http, ExitStack() as until_end:
            _, token = operator.token("User:attacker", RIGHTS)
            gateway.http.headers.update(by(token))
            yield Target(gateway, operator, token, store, directory, until_end)
        assert gateway.end() == 0, gateway.log()[-2000:]
    finally:
        if gateway.is_running():
            gateway.kill()
