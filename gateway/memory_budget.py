"""Budgets of memory: memory is reserved before it is used; a reservation that does not fit is refused or waits.

1. The reservations of a budget never exceed its ``bytes_max`` together, except by ``Reservation.hold``.
2. A reservation is released exactly once, whatever happens to its request; releasing again does nothing.
3. Waiting reservations are served in order, so that small ones do not starve a large one.
4. A part may be kept (``kept_bytes``) for clients that hold little, and half of it for small or brief reservations of any
   client. Reservations from the kept part pass the waiting ones. So a client that never reads its answers holds up only
   itself. The caller names the client. Behind a proxy all clients are one, and share all but the kept part.
5. With ``of_client_max`` a client has at most that many bytes, but one reservation of any size while it has no other. A
   reservation beyond that is refused or waits, and holds up no other client. This is for clients that are known for certain.

Not thread-safe: used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Protocol, Self

from gateway.problem import overloaded

SMALL_BYTES: Final = 256 * 1024
"""Size up to which any client's reservation may be taken from the kept part."""


class Memory(Protocol):
    """A budget, or one client's view of it."""

    @property
    def client(self) -> str | None:
        """Client that reserves; None: none in particular."""

    @property
    def largest_bytes(self) -> int:
        """The most bytes that one reservation can have."""

    def reserve(self, size_bytes: int = 0) -> Reservation:
        """Take ``size_bytes`` now (``MemoryBudget.reserve``)."""

    async def reserve_in_turn(
        self, size_bytes: int, *, wait_ms: int, waiting_max: int = 256, is_brief: bool = False
    ) -> Reservation:
        """Take ``size_bytes`` after earlier reservations (``MemoryBudget.reserve_in_turn``)."""


class Reservation:
    """Bytes taken from a budget; give them back with ``release`` or by leaving the ``with`` block."""

    __slots__ = ("_budget", "_client", "_is_kept", "size_bytes")

    def __init__(self, budget: MemoryBudget, size_bytes: int, client: str | None = None, is_kept: bool = False) -> None:
        self._budget = budget
        self._client = client
        self._is_kept = is_kept
        self.size_bytes = size_bytes

    def grow(self, by_bytes: int) -> None:
        """Reserve ``by_bytes`` more. Raises ``BackOff`` (``OVERLOADED``), and keeps what it had."""
        self._budget.take(by_bytes, self._client, self._is_kept, own_bytes=self.size_bytes)
        self.size_bytes += by_bytes

    def split(self, size_bytes: int) -> Reservation:
        """Return ``size_bytes`` of its bytes as a reservation of their own; grow first if it has fewer. Raises what ``grow``
        raises."""
        if size_bytes > self.size_bytes:
            self.grow(size_bytes - self.size_bytes)
        self.size_bytes -= size_bytes
        return Reservation(self._budget, size_bytes, self._client, self._is_kept)

    def cover(self, size_bytes: int) -> None:
        """Grow to ``size_bytes``, or to the whole budget if that is less. Raises ``BackOff``, and keeps what it had."""
        missing = min(size_bytes, self._budget.bytes_max) - self.size_bytes
        if missing > 0:
            self.grow(missing)

    def hold(self, size_bytes: int) -> None:
        """Hold exactly ``size_bytes``, even beyond the budget: for memory that is in use already and can't be refused."""
        if size_bytes > self.size_bytes:
            self._budget.count(size_bytes - self.size_bytes, self._client, self._is_kept)
            self.size_bytes = size_bytes
        self.shrink_to(size_bytes)

    def shrink_to(self, size_bytes: int) -> None:
        """Give back the bytes above ``size_bytes``; do nothing if fewer are held."""
        surplus = self.size_bytes - size_bytes
        if surplus > 0:
            self.size_bytes = size_bytes
            self._budget.give_back(surplus, self._client, self._is_kept)

    def release(self) -> None:
        """Give everything back. Idempotent."""
        self.shrink_to(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@dataclass(slots=True, eq=False)
class _Waiting:
    """A waiting reservation; the future ``turn`` gets the reservation when it is served."""

    wanted: int
    client: str | None
    is_small: bool
    since: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    turn: asyncio.Future[Reservation] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def waited_ms(self) -> int:
        """Return the milliseconds waited so far."""
        return int((asyncio.get_running_loop().time() - self.since) * 1000)


class MemoryBudget:
    """A budget of bytes for one purpose, which refusals name ("request bodies")."""

    client: None = None

    def __init__(self, bytes_max: int, purpose: str, *, kept_bytes: int = 0, of_client_max: int | None = None) -> None:
        assert 0 <= kept_bytes < bytes_max
        self.bytes_max = bytes_max
        self.purpose = purpose
        self.used_bytes = 0
        self._of_client_max = of_client_max
        self._kept_max = kept_bytes
        self._kept_used = 0
        self._of_clients: dict[str, int] = {}
        self._waiting: deque[_Waiting] = deque()
        self._longest_wait_ms = 0

    @property
    def waiting_count(self) -> int:
        """Number of reservations that wait for room."""
        return len(self._waiting)

    def longest_wait_ms(self) -> int:
        """Return the longest wait since the last call of this method, present waits included; 0 if there was none."""
        longest_ms, self._longest_wait_ms = self._longest_wait_ms, 0
        return max(longest_ms, self._waiting[0].waited_ms()) if self._waiting else longest_ms

    @property
    def largest_bytes(self) -> int:
        """The most bytes that one waiting reservation can get: all but the kept part."""
        return self.bytes_max - self._kept_max

    def of(self, client: str) -> ClientMemory:
        """Return the budget in the view of one client."""
        return ClientMemory(self, client)

    def held_by(self, client: str) -> int:
        """Return the bytes that the client has reserved."""
        return self._of_clients.get(client, 0)

    def reserve(self, size_bytes: int = 0, client: str | None = None) -> Reservation:
        """Take ``size_bytes`` now. Raises ``BackOff`` (``OVERLOADED``) when they don't fit."""
        if size_bytes:
            self.take(size_bytes, client)
        return Reservation(self, size_bytes, client)

    async def reserve_in_turn(
        self,
        size_bytes: int,
        *,
        wait_ms: int,
        waiting_max: int = 256,
        client: str | None = None,
        is_brief: bool = False,
    ) -> Reservation:
        """Take ``size_bytes`` once all earlier reservations are served.

        More than the whole budget (without its kept part) counts as the whole: the largest permitted request must be served
        when it is alone.

        Args:
            wait_ms: time to wait at most.
            waiting_max: number of waiting reservations from which this one is refused.
            client: client that reserves; None: none in particular.
            is_brief: whether it soon shrinks to little, whatever its client does, and so counts as small.

        Raises ``BackOff`` (``OVERLOADED``) when the time is over or too many others wait already.
        """
        wanted = min(size_bytes, self.largest_bytes)
        if not self._waiting and self._has_room(wanted, is_kept=False) and self._is_within_share(wanted, client):
            self.count(wanted, client)
            return Reservation(self, wanted, client)
        waiting = _Waiting(wanted, client, is_brief or size_bytes <= SMALL_BYTES)
        is_kept = self._next() is not None or not self._has_room(waiting.wanted, is_kept=False)
        if self._is_within_share(waiting.wanted, client) and (not is_kept or self._may_take_kept(waiting)):
            return self._taken(waiting, is_kept)
        if len(self._waiting) >= waiting_max:
            raise self._full()
        self._waiting.append(waiting)
        turn = waiting.turn
        try:
            async with asyncio.timeout(wait_ms / 1000):
                return await turn
        except BaseException as error:
            # Served and cancelled in the same iteration of the event loop: its bytes were taken and go back.
            if turn.done() and not turn.cancelled():
                turn.result().release()
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
                self._serve()
            if isinstance(error, TimeoutError):
                raise self._full() from None
            raise
        finally:
            self._longest_wait_ms = max(self._longest_wait_ms, waiting.waited_ms())

    def take(self, size_bytes: int, client: str | None = None, is_kept: bool = False, *, own_bytes: int = 0) -> None:
        """Count ``size_bytes`` as used, by a reservation that has ``own_bytes``. Raises ``BackOff`` (``OVERLOADED``)."""
        if not self._has_room(size_bytes, is_kept):
            raise self._full()
        if not self._is_within_share(size_bytes, client, own_bytes):
            raise overloaded(
                f"The caller's share of the gateway's memory for {self.purpose} is used up "
                f"({self._of_client_max} bytes)."
            )
        self.count(size_bytes, client, is_kept)

    def count(self, size_bytes: int, client: str | None = None, is_kept: bool = False) -> None:
        """Count ``size_bytes`` as used, whether they fit or not."""
        self.used_bytes += size_bytes
        if is_kept:
            self._kept_used += size_bytes
        if client is not None and size_bytes:
            self._of_clients[client] = self._of_clients.get(client, 0) + size_bytes

    def give_back(self, size_bytes: int, client: str | None = None, is_kept: bool = False) -> None:
        """Count ``size_bytes`` as free again, and serve waiting reservations with them."""
        self.used_bytes -= size_bytes
        if is_kept:
            self._kept_used -= size_bytes
        assert self.used_bytes >= self._kept_used >= 0, "more was given back than taken"
        if client is not None:
            left = self._of_clients[client] - size_bytes
            if left:
                self._of_clients[client] = left
            else:
                del self._of_clients[client]
        if self._waiting:
            self._serve()

    def _has_room(self, size_bytes: int, is_kept: bool) -> bool:
        if is_kept:
            return self._kept_used + size_bytes <= self._kept_max
        return self.used_bytes - self._kept_used + size_bytes <= self.bytes_max - self._kept_max

    def _is_within_share(self, size_bytes: int, client: str | None, own_bytes: int = 0) -> bool:
        if self._of_client_max is None or client is None:
            return True
        held = self.held_by(client)
        return held <= own_bytes or held + size_bytes <= self._of_client_max

    def _next(self) -> _Waiting | None:
        """Return the first reservation that waits for room, and not for its own client's bytes."""
        if self._of_client_max is None:
            return self._waiting[0] if self._waiting else None
        return next((one for one in self._waiting if self._is_within_share(one.wanted, one.client)), None)

    def _may_take_kept(self, waiting: _Waiting) -> bool:
        wanted = waiting.wanted
        if not self._is_within_share(wanted, waiting.client):
            return False
        if waiting.is_small and self._kept_used + wanted <= self._kept_max // 2:
            return True
        holds_little = waiting.client is not None and self.held_by(waiting.client) + wanted <= self._kept_max
        return holds_little and self._has_room(wanted, is_kept=True)

    def _taken(self, waiting: _Waiting, is_kept: bool) -> Reservation:
        self.take(waiting.wanted, waiting.client, is_kept)
        return Reservation(self, waiting.wanted, waiting.client, is_kept)

    def _serve(self) -> None:
        while (first := self._next()) is not None and self._has_room(first.wanted, is_kept=False):
            self._waiting.remove(first)
            self._hand(first, is_kept=False)
        if self._kept_max:
            for waiting in [one for one in self._waiting if self._may_take_kept(one)]:
                if self._may_take_kept(waiting):
                    self._waiting.remove(waiting)
                    self._hand(waiting, is_kept=True)

    def _hand(self, waiting: _Waiting, *, is_kept: bool) -> None:
        if not waiting.turn.done():
            waiting.turn.set_result(self._taken(waiting, is_kept))

    def _full(self) -> Exception:
        return overloaded(f"The gateway's memory for {self.purpose} is used up ({self.bytes_max} bytes).")


@dataclass(frozen=True, slots=True)
class ClientMemory:
    """A budget in the view of one client."""

    budget: MemoryBudget
    client: str

    @property
    def largest_bytes(self) -> int:
        """The most bytes that one reservation can have."""
        return self.budget.largest_bytes

    def reserve(self, size_bytes: int = 0) -> Reservation:
        """Take ``size_bytes`` now (``MemoryBudget.reserve``)."""
        return self.budget.reserve(size_bytes, self.client)

    async def reserve_in_turn(
        self, size_bytes: int, *, wait_ms: int, waiting_max: int = 256, is_brief: bool = False
    ) -> Reservation:
        """Take ``size_bytes`` after earlier reservations (``MemoryBudget.reserve_in_turn``)."""
        return await self.budget.reserve_in_turn(
            size_bytes, wait_ms=wait_ms, waiting_max=waiting_max, client=self.client, is_brief=is_brief
        )
