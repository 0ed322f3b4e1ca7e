"""A gateway with ``auth=on`` in this process, over a store in memory, and for each row of the matrix things of its own in it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from kio.schema.errors import ErrorCode as KafkaError

from gateway.app import GatewayApplication, create_app
from gateway.kafka.listening.listener import KafkaListener
from gateway.process.assembly import assemble
from gateway.settings.settings import Settings
from log_format.errors import ObjectMissing
from log_format.store import ObjectStore
from log_format.stores import open_store
from tests.support.access import bootstrap_file
from tests.support.kafka_frames import Wire, log_in
from tests.support.secured import acl

Right = tuple[str, str, str]
"""Operation, resource type, resource."""
TOPICS: Final = ("topic", "other", "dead")
NAMES: Final = (*TOPICS, "group", "queue", "tid")
DENIED: Final[Mapping[str, KafkaError]] = {
    "topic": KafkaError.topic_authorization_failed,
    "group": KafkaError.group_authorization_failed,
    "cluster": KafkaError.cluster_authorization_failed,
    "transactional_id": KafkaError.transactional_id_authorization_failed,
    "subject": KafkaError.cluster_authorization_failed,  # Kafka has no subjects
}
JOURNALS: Final = "system/journals/"
_UNCOUNTED: Final = ("topics/__audit/", "system/access/", "system/gateways/", "system/probes/", "system/cluster.json")
"""What a refusal, or nobody's request, may write."""


@dataclass(frozen=True)
class Answer:
    """``refusals``: the rights that it says are missing; with Kafka's codes only their types. ``failures``: what else failed."""

    text: str
    refusals: tuple[Any, ...] = ()
    failures: tuple[Any, ...] = ()


class LiveGateway(NamedTuple):
    """Its loop runs in a thread of its own."""

    loop: asyncio.AbstractEventLoop
    app: GatewayApplication
    listener: KafkaListener
    store: ObjectStore
    token: str

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def http(
        self, token: str | None, method: str, path: str, body: Any = None, *, operators: bool = False, **headers: str
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app.operations if operators else self.app)
            sent = headers if token is None else headers | {"authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, path, json=body, headers=sent)

        answer: httpx.Response = self.run(ask())
        return answer

    def first_event(self, token: str, path: str) -> httpx.Response:
        """The answer to a client of an event stream that goes away with the first event."""
        body, headers = [], [(b"accept", b"text/event-stream"), (b"authorization", f"Bearer {token}".encode())]
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"127.0.0.1"), *headers],
        }

        async def ask() -> httpx.Response:
            asked, enough = asyncio.Event(), asyncio.Event()
            status = 0

            async def receive() -> Any:
                if not asked.is_set():
                    asked.set()
                    return {"type": "http.request", "body": b"", "more_body": False}
                await enough.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                nonlocal status
                status = message.get("status", status)
                body.append(message.get("body", b""))
                if b"data:" in body[-1]:
                    enough.set()

            await self.app(scope, receive, send)
            return httpx.Response(status, content=b"".join(body))

        answer: httpx.Response = self.run(ask())
        return answer

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """What ``User:bootstrap`` is answered."""
        answer = self.http(self.token, method, path, body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None


@contextmanager
def live_gateway(directory: Path) -> Iterator[LiveGateway]:
    """One that runs until the block ends."""
    path, token = bootstrap_file(directory)
    settings = Settings(
        store=f"memory://{secrets.token_hex(4)}",
        auth="on",
        bootstrap_token_file=str(path),
        kafka_listen="127.0.0.1:0",
        auto_create_topics=2,
        log_level="error",
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin() -> tuple[GatewayApplication, KafkaListener, Any]:
        gateway = assemble(settings)
        app = create_app(gateway)
        lifespan = app.router.lifespan_context(app)
        await lifespan.__aenter__()
        listener = KafkaListener(gateway)
        await listener.bind()
        await listener.serve()
        gateway.membership.start("http://127.0.0.1:1", str(listener.advertised))
        return app, listener, lifespan

    app, listener, lifespan = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)

    async def end() -> None:
        await listener.close()
        await lifespan.__aexit__(None, None, None)

    try:
        yield LiveGateway(loop, app, listener, open_store(settings.store), token)
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@dataclass
class World:
    """The things of one row, and its caller. Names are in none of another row."""

    live: LiveGateway
    mode: str = "own"
    """Whether its topics have their own commits, or share those of a journal."""
    principal: str = ""
    token: str = ""
    names: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    """Of the topics, by their names."""
    held: dict[str, Any] = field(default_factory=dict)
    """What a preparation leaves for the call."""

    def __post_init__(self) -> None:
        mark = secrets.token_hex(6)
        self.names = {name: f"{name}-{mark}" for name in NAMES}
        self.names |= {"mark": mark, "partition": "0", "member": "m", "token": "abcdefgh", "role": f"role-{mark}"}
        self.names |= {"principal": "User:someone", "scheduled": "0f1d2c3b-0000000000", "erasure": "e1", "pin": "p"}
        self.principal = f"User:{mark}"
        admin = self.live.admin
        self.token = admin("POST", "/v1/access/tokens", {"principal": self.principal})["token"]
        config = {"flush.ms": 0, "commit.mode": self.mode}
        for name in TOPICS:
            made = admin("POST", "/v1/topics", {"name": self.names[name], "config": config})
            self.ids[self.names[name]] = made["topic_id"]
        for name in ("topic", "other"):
            record = {"key": f"secret-{name}", "value": f"secret-{name}"}
            admin("POST", f"/v1/topics/{self.names[name]}/records", {"records": [record] * 3})

    def filled(self, value: Any) -> Any:
        """The value with the names in place of ``{…}``."""
        if isinstance(value, str):
            for name, text in self.names.items():
                value = value.replace("{" + name + "}", text)
            return value
        if isinstance(value, dict):
            return {name: self.filled(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.filled(entry) for entry in value)
        return value

    def grant(self, rights: Iterable[Right]) -> None:
        """The caller may do these from now on, and nothing else."""
        self.live.admin("DELETE", f"/v1/access/acls?principal={self.principal}")
        if acls := [acl(self.principal, *self.filled(right)) for right in rights]:
            self.live.admin("POST", "/v1/access/acls", {"acls": acls})

    def may_all(self) -> None:
        """While something is prepared."""
        self.grant([("All", kind, "*") for kind in ("topic", "group", "transactional_id", "subject")])

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """What ``User:bootstrap`` is answered, to a path with ``{…}``."""
        return self.live.admin(method, self.filled(path), self.filled(body))

    def mine(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What the caller is answered. It may."""
        answer = self.live.http(self.token, method, self.filled(path), self.filled(body), **self.filled(headers))
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def http(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """What the caller is answered, whatever that is."""
        sent = self.filled(dict(headers or {}))
        if sent == {"accept": "text/event-stream"}:
            answer = self.live.first_event(self.token, self.filled(path))
        else:
            answer = self.live.http(self.token, method, self.filled(path), self.filled(body), **sent)
        refusals = tuple(
            (problem["operation"], problem["resource_type"], problem["resource"])
            for problem in _problems(answer)
            if problem.get("error_code") == "UNAUTHORIZED"
        )
        return Answer(answer.text, refusals, () if answer.is_success or refusals else (answer.status_code,))

    def kafka(self, name: str, version: int, **values: Any) -> Answer:
        """What the caller is answered, over a connection of its own; a connection that a preparation holds goes on."""
        wire = self.held.get("wire") or self.wire()
        answer = wire.call(name, version, **self.filled(values))
        if wire is not self.held.get("wire"):
            wire.socket.close()
        codes = [code for code in _codes(answer) if code is not KafkaError.none]
        refusals = [code for code in codes if code in DENIED.values()]
        return Answer(repr(answer), tuple(refusals), tuple(code for code in codes if code not in refusals))

    def wire(self) -> Wire:
        """A connection of the caller's."""
        wire = Wire(str(self.live.listener.advertised))
        assert log_in(wire, self.token).error_code is KafkaError.none
        return wire

    def objects(self) -> dict[str, bytes]:
        """What the store has of the row, but for what a refusal may write."""
        found, marks = {}, [self.names["mark"], *self.ids.values()]
        for one in self.live.store.list(""):
            if not one.key.startswith(_UNCOUNTED):
                with suppress(ObjectMissing):  # deleted meanwhile
                    found[one.key] = self.live.store.get(one.key)
        return {
            key: data
            for key, data in found.items()
            if any(mark in key or mark.encode() in data for mark in marks) and not _is_upkeep(key, data)
        }

    def at_rest(self) -> dict[str, bytes]:
        """The same, once nothing of a preparation goes on."""
        before: dict[str, bytes] = {}
        while (found := self.objects()) != before:
            before = found
            time.sleep(0.03)
        return found

    def close(self) -> None:
        """End the connection that a preparation holds."""
        if (wire := self.held.pop("wire", None)) is not None:
            wire.socket.close()


def _is_upkeep(key: str, data: bytes) -> bool:
    """Whether a gateway has written it by itself, into a system table: rows together in a file, which a commit then names."""
    is_of_records = key.startswith(JOURNALS)
    return key.startswith("system/") and not is_of_records and (key.endswith(".parquet") or b'"add":' in data)


def _problems(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Of the answer, and of each part that has an error of its own."""
    try:
        body = json.loads(answer.text)
    except ValueError:
        return
    waiting = [body]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "resource_type" in one and "operation" in one:
                yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _codes(entity: Any) -> Iterator[KafkaError]:
    """All error codes in an answer."""
    if isinstance(entity, KafkaError):
        yield entity
    elif dataclasses.is_dataclass(entity):
        for one in dataclasses.fields(entity):
            yield from _codes(getattr(entity, one.name))
    elif isinstance(entity, tuple):
        for member in entity:
            yield from _codes(member)
