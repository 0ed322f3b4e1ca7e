"""What routes get: the settings, the engine, the budgets, the pool. Made once by whoever starts the gateway."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from starlette.requests import Request

from gateway.certificate import Certificate
from gateway.http.body import BodyLimits
from gateway.memory_budget import Memory, MemoryBudget
from gateway.metrics import Metrics
from gateway.settings import Settings, SettingsError
from log_format.clock import Clock, SystemClock

if TYPE_CHECKING:
    from gateway.cluster.forwarding import Forwarding
    from gateway.cluster.membership import Membership


ANSWER_SHARE: Final = 1 / 3
"""Of the memory for answers: kept for clients that hold less than that of it. Half of it fits a small read of old records."""


class Engine(Protocol):
    """What the shell asks of the engine. The routes of topics, produce and fetch know the rest of it."""

    @property
    def draining(self) -> bool:
        """True from the beginning of ``drain`` on."""
        ...

    @property
    def owned_topic_count(self) -> int:
        """Topics that this gateway commits to at the moment."""
        ...

    async def start(self) -> None:
        """Get ready; called once, before the first request."""
        ...

    async def drain(self) -> None:
        """End waits, flush what is buffered, acknowledge it, release everything. Called at least once; idempotent."""
        ...

    async def store_answers(self) -> None:
        """Return when the store can be read. Raises ``StoreError``, ``TidelogError``."""
        ...

    async def measure(self) -> None:
        """Bring up to date what is measured only when somebody looks at the metrics. Raises nothing."""
        ...


@dataclass(slots=True)
class Stopping:
    """What only the running server knows: that it was told to stop, and where it listens."""

    begun: bool = False
    listening_url: str | None = None
    operations_url: str | None = None
    """Of the operations listener, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """The components of one gateway. ``request_memory`` is for bodies, ``answer_memory`` for what fetches hold."""

    settings: Settings
    engine: Engine
    metrics: Metrics
    request_memory: MemoryBudget
    answer_memory: MemoryBudget
    body_limits: BodyLimits
    codec_pool: ThreadPoolExecutor
    store_uri: str
    clock: Clock
    started_at_ms: int
    certificate: Certificate | None = None
    """None: HTTP is plain."""
    membership: Membership | None = None
    """None, as is ``forwarding``: a gateway that neither knows nor wants others."""
    forwarding: Forwarding | None = None
    stopping: Stopping = field(default_factory=Stopping)

    @property
    def draining(self) -> bool:
        """New work is refused."""
        return self.stopping.begun or self.engine.draining

    @property
    def url(self) -> str:
        """By which others reach this gateway; with port 0 that is known only once it listens."""
        return (
            self.settings.advertised_url
            or self.stopping.listening_url
            or f"{self.settings.scheme}://{self.settings.host}:{self.settings.port}"
        )


def make_shell(
    settings: Settings,
    engine: Engine,
    *,
    store_uri: str,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    request_memory: MemoryBudget | None = None,
) -> Shell:
    """The components that ``settings`` describe around ``engine``.

    Share ``metrics`` with the engine to see both at once, and ``request_memory`` so that both stay within it. Raises
    ``SettingsError`` for a certificate that can't be used.
    """
    clock = clock or SystemClock()
    try:
        certificate = (
            Certificate(settings.tls_cert, settings.tls_key) if settings.tls_cert and settings.tls_key else None
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    return Shell(
        settings=settings,
        engine=engine,
        metrics=metrics or Metrics(),
        request_memory=request_memory or MemoryBudget(settings.in_flight_bytes_max, "request bodies"),
        answer_memory=MemoryBudget(
            settings.answer_bytes_max, "answers", kept_bytes=int(settings.answer_bytes_max * ANSWER_SHARE)
        ),
        body_limits=BodyLimits(bytes_max=settings.request_bytes_max, total_ms=settings.body_total_ms),
        codec_pool=ThreadPoolExecutor(settings.codec_threads, thread_name_prefix="codec"),
        store_uri=store_uri,
        clock=clock,
        started_at_ms=clock.now_ms(),
        certificate=certificate,
    )


def shell_of(request: Request) -> Shell:
    """The gateway's components, for a route."""
    shell: Shell = request.scope["app"].state.shell
    return shell


def answer_memory(request: Request) -> Memory:
    """The memory for answers, as the client at the other end of the connection has it."""
    client = request.client
    return shell_of(request).answer_memory.of("" if client is None else client.host)
