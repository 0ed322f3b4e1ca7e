"""An object store behind a network that loses, delays and repeats.

The server is a ``MemoryStore`` on the virtual clock: an operation takes effect in one step, when its request arrives. A client
belongs to a machine; each of its operations is a request and an answer, and ``Faults`` says what happens to them. What is under
way goes on when its client is paused, gives up or crashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from log_format.errors import ObjectExists, StoreError, StoreUnavailable
from log_format.store import ObjectInfo
from log_format.stores.memory import MemoryStore
from tests.simulation.simulated.faults import Fault, Faults
from tests.simulation.simulated.scheduler import Machine, MachineClock, Scheduler, Signal

ResultT = TypeVar("ResultT")

Page = list[ObjectInfo]
LIST_PAGE_KEYS = 7


class Server:
    """The store itself. ``on_written`` is told of each object that appears, in the step in which it does; ``on_deleted``, of each
    that is deleted."""

    def __init__(self, scheduler: Scheduler, *, lists_from_key: bool = True) -> None:
        clock = MachineClock(scheduler, Machine("server"))
        self.objects = MemoryStore("simulated", clock=clock, lists_from_key=lists_from_key)
        self.down_until_ms = 0
        self.on_written: Callable[[str, bytes], None] = lambda key, data: None
        self.on_deleted: Callable[[str], None] = lambda key: None
        self.seen: Counter[str] = Counter()
        """What happened how often, so that a test can show that it did happen."""

    def put(self, key: str, data: bytes) -> None:
        self.objects.put(key, data)
        self.on_written(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self.objects.put_if_absent(key, data)
        self.on_written(key, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        self.put_if_absent(target, self.objects.get(source))

    def delete(self, key: str) -> None:
        self.objects.delete(key)
        self.on_deleted(key)


class Client:
    """An ``ObjectStore`` on one machine."""

    def __init__(self, scheduler: Scheduler, server: Server, faults: Faults, machine: Machine) -> None:
        self._scheduler = scheduler
        self._server = server
        self._faults = faults
        self._machine = machine

    @property
    def uri(self) -> str:
        return self._server.objects.uri

    @property
    def lists_from_key(self) -> bool:
        return self._server.objects.lists_from_key

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        return self._request("get", key, lambda: self._server.objects.get(key, bytes_max=bytes_max))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._request("get_range", key, lambda: self._server.objects.get_range(key, start, end))

    def head(self, key: str) -> ObjectInfo:
        return self._request("head", key, lambda: self._server.objects.head(key))

    def put(self, key: str, data: bytes) -> None:
        self._request("put", key, lambda: self._server.put(key, data), writes=True)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._request("put_if_absent", key, lambda: self._server.put_if_absent(key, data), writes=True)

    def copy_if_absent(self, source: str, target: str) -> None:
        self._request("copy_if_absent", target, lambda: self._server.copy_if_absent(source, target), writes=True)

    def delete(self, key: str) -> None:
        self._request("delete", key, lambda: self._server.delete(key), writes=True)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        while True:
            page = self._request("list", prefix, lambda after=start_after: self._page(prefix, after))  # type: ignore[misc]
            yield from page
            if len(page) < LIST_PAGE_KEYS:
                return
            start_after = page[-1].key

    def list_directories(self, prefix: str) -> Iterator[str]:
        yield from self._request("list_directories", prefix, lambda: [*self._server.objects.list_directories(prefix)])

    def _page(self, prefix: str, start_after: str) -> Page:
        listing = self._server.objects.list(prefix, start_after=start_after)
        return [info for info, _ in zip(listing, range(LIST_PAGE_KEYS), strict=False)]

    def _request(self, operation: str, key: str, perform: Callable[[], ResultT], *, writes: bool = False) -> ResultT:
        commits = operation == "put_if_absent"
        self._perhaps_pause(commits=commits)
        fault = self._faults.of_request(writes=writes, commits=commits)
        if fault in {Fault.TWICE, Fault.TWICE_LATE} and operation == "delete":
            fault = Fault.NONE
        exchange = _Exchange(self._scheduler, self._server, key, perform)
        what = f"{self._machine.name} {operation} {key.rpartition('/')[2]}"
        travel_ms = self._faults.travel_ms()
        if fault is not Fault.NONE:
            self._server.seen[fault.value] += 1
            what += f" [{fault.value}]"
        match fault:
            case Fault.REFUSED:
                exchange.answer_in(travel_ms, StoreUnavailable(key, "connection refused", may_have_happened=False))
            case Fault.REQUEST_LOST:
                exchange.time_out_in(self._faults.timeout_ms())
            case Fault.ANSWER_LOST:
                exchange.arrive_in(travel_ms, None)
                exchange.time_out_in(travel_ms + self._faults.timeout_ms())
            case Fault.LATE:
                exchange.arrive_in(self._faults.late_ms(), None)
                exchange.time_out_in(self._faults.timeout_ms())
            case Fault.TWICE:
                exchange.arrive_in(travel_ms, None)
                exchange.arrive_in(travel_ms + self._faults.travel_ms(), self._faults.travel_ms())
            case Fault.TWICE_LATE:
                exchange.arrive_in(travel_ms, self._faults.travel_ms())
                exchange.arrive_in(travel_ms + self._faults.late_ms(), None)
            case Fault.NONE:
                exchange.arrive_in(travel_ms, self._faults.travel_ms())
        try:
            result = exchange.wait()
        except StoreError as problem:
            self._scheduler.note(f"{what}: {type(problem).__name__}")
            raise
        self._scheduler.note(what)
        return cast("ResultT", result)

    def _perhaps_pause(self, *, commits: bool) -> None:
        pause_ms = self._faults.pause_ms(commits=commits)
        if pause_ms:
            self._server.seen["pause at a request"] += 1
            self._machine.paused_until_ms = self._scheduler.now_ms + pause_ms
            if self._faults.chance():
                self._scheduler.sleep_ms(0)  # and sends the request when it wakes; else it finds the answer then


class _Exchange:
    """One request and its answer; the first answer that reaches the client counts."""

    def __init__(self, scheduler: Scheduler, server: Server, key: str, perform: Callable[[], object]) -> None:
        self._scheduler = scheduler
        self._server = server
        self._key = key
        self._perform = perform
        self._answered = Signal(scheduler)
        self._answer: object = None
        self._arrivals = 0

    def arrive_in(self, delay_ms: int, answer_ms: int | None) -> None:
        """The request reaches the server after ``delay_ms``; the answer comes ``answer_ms`` later, or never."""
        self._scheduler.at(delay_ms, lambda: self._arrive(answer_ms))

    def time_out_in(self, delay_ms: int) -> None:
        self.answer_in(delay_ms, StoreUnavailable(self._key, "timed out", may_have_happened=True))

    def answer_in(self, delay_ms: int, answer: object) -> None:
        self._scheduler.at(delay_ms, lambda: self._take(answer))

    def wait(self) -> object:
        """What the client gets."""
        self._answered.wait()
        if isinstance(self._answer, StoreError):
            raise self._answer
        return self._answer

    def _arrive(self, answer_ms: int | None) -> None:
        answer: object
        if self._scheduler.now_ms < self._server.down_until_ms:
            self._server.seen["down"] += 1
            answer = StoreUnavailable(self._key, "internal error", may_have_happened=True)
        else:
            try:
                answer = self._perform()
                self._arrivals += 1
            except ObjectExists as problem:
                answer = problem
                if self._arrivals:
                    self._server.seen["own object exists"] += 1
            except StoreError as problem:
                answer = problem
        if answer_ms is not None:
            self.answer_in(answer_ms, answer)

    def _take(self, answer: object) -> None:
        if not self._answered.is_set:
            self._answer = answer
            self._answered.set()
