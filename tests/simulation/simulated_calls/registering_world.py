"""One history of callers that use the schema registry at once, through two gateways, while their rights change, from one seed.

The store loses nothing, so each call has an answer. ``simulate_registering(seed)`` returns what happened or raises ``Violation``:

1. Some serial order gives the same: all answers, ids included, and what can be seen in the end, of one registry that serves one
   call after another. In this order no call comes before one that was answered before it was sent.
2. A caller is refused for want of a right, and then changes nothing, exactly if it had none: by some state of the rights while
   the call was under way, or, through the gateway that did not change them, within five seconds before.
"""

from __future__ import annotations

import json
import random
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from gateway.access.rights import RENEWED_MS
from gateway.engine.bounds import EngineBounds
from gateway.groups.bounds import GroupBounds
from tests.simulation.simulated.faults import CALM, SECOND_MS, Faults
from tests.simulation.simulated.scheduler import Machine
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated.world import History, ignore
from tests.simulation.simulated_calls.serial_registry import (
    BACKWARD,
    FULL_TRANSITIVE,
    NONE,
    Answer,
    Asked,
    Done,
    Kind,
    Schema,
    is_serial,
)
from tests.simulation.simulated_service.gateways_world import GatewaysWorld
from tests.simulation.simulated_service.network import Reply
from tests.simulation.simulated_service.service import Code, Service

SUBJECTS = ("a", "b")
CALLERS = 3
CALLS = 3
"""Of each caller, one after another."""
RIGHTS = 3
"""Changes of a caller's rights."""
_PRINCIPAL = "User:alice"
_ACL = {"principal": _PRINCIPAL, "operation": "Write", "resource_type": "subject", "resource": "a"}


class Change(NamedTuple):
    """A change of the right: from when until when it was made, through which gateway, and whether the caller has it then."""

    sent_ms: int
    answered_ms: int
    gateway: int
    has_right: bool


def simulate_registering(seed: int, *, code: Code | None = None, on_note: Callable[[str], None] = ignore) -> History:
    """Run the history of ``seed``."""
    with tempfile.TemporaryDirectory(prefix="tidelog-registering-") as folder:
        world = RegisteringWorld(random.Random(seed), Path(folder))
        world.run(seed, code=code, on_note=on_note)
    return History(seed=seed, profile="registering", trace=tuple(world.scheduler.trace), seen=world.seen)


class RegisteringWorld(GatewaysWorld):
    """Two gateways with ``auth=on``, and callers, one of which may at times write to one of the subjects only."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        whole = Faults(rng, CALM)
        whole.active = False
        super().__init__(rng, whole)
        self._tokens = {"User:bootstrap": f"tl_bootstrap_{secrets.token_urlsafe(32)}"}
        self._bootstrap = folder / "bootstrap"
        self._bootstrap.touch(mode=0o600)
        self._bootstrap.write_text(self._tokens["User:bootstrap"])
        self.seen: Counter[str] = Counter()
        self._done: list[Done] = []
        self._changes = [Change(0, 0, 0, has_right=False)]
        self._under_way = CALLERS + 1

    def begin(self) -> None:
        """Start gateways and the callers."""
        for name in ("here", "there"):
            machine = Machine(name)
            client = self.client(machine, self.faults)
            bounds = {"bounds": EngineBounds(), "group_bounds": GroupBounds()}
            self.services.append(self.service(client, machine, bootstrap_file=str(self._bootstrap), **bounds))
        self.scheduler.start("callers", self.outside, self._live)

    def start_service(self) -> Service:
        """None crashes."""
        raise NotImplementedError

    def _live(self) -> None:
        made = self._call("User:bootstrap", 0, "POST", "/v1/access/tokens", {"principal": _PRINCIPAL})
        self._tokens[_PRINCIPAL] = made.body["token"]
        self.scheduler.sleep_ms(RENEWED_MS)  # until the other gateway knows it
        for number in range(CALLERS):
            principal = _PRINCIPAL if number == 0 else "User:bootstrap"
            self.scheduler.start(f"caller {number}", self.outside, partial(self._register, principal))
        self.scheduler.start("rights", self.outside, self._change_rights)

    def _call(self, principal: str, gateway: int, method: str, path: str, body: Any = None) -> Reply:
        headers = {"authorization": f"Bearer {self._tokens[principal]}"}
        reply = self.network.call(self.services[gateway], method, path, body, headers)
        if not isinstance(reply, Reply) or reply.status >= 500:
            raise Violation(f"{method} {path} met no fault, and was answered {reply}")
        return reply

    # What the callers do

    def _register(self, principal: str) -> None:
        for _ in range(CALLS):
            if self.rng.random() < 0.4:
                self.scheduler.sleep_ms(self.rng.randrange(SECOND_MS))
            asked = self._drawn(principal)
            self._one(principal, asked)
            if asked.kind == "delete subject":  # what comes behind it is what can go wrong
                if self.rng.random() < 0.5:
                    self._one(principal, asked._replace(kind="forget subject"))
                before = {one.asked for one in self._done if one.answer.status == 200}
                known = sorted((one for one in before if one[:2] == ("register", asked.subject)), key=str)
                self._one(principal, self.rng.choice([*known, Asked("register", asked.subject, self._schema())]))
        self._ended()

    def _drawn(self, principal: str) -> Asked:
        subject = self.rng.choice(SUBJECTS) if principal != _PRINCIPAL else "a"
        if principal == _PRINCIPAL or self.rng.random() < 0.6:
            return Asked("register", subject, self._schema())
        kinds: tuple[Kind, ...] = ("delete version", "delete subject", "delete subject", "level", "level", "mode")
        match kind := self.rng.choice(kinds):
            case "delete version":
                return Asked(kind, subject, self.rng.randrange(1, 4))
            case "level":
                return Asked(kind, subject, self.rng.choice((BACKWARD, FULL_TRANSITIVE, NONE)))
            case "mode":
                return Asked(kind, subject, self.rng.choice(("READONLY", "READWRITE")))
        return Asked(kind, subject)

    def _schema(self) -> Schema:
        return Schema(self.rng.choice(("long", "string", None)), self.rng.randrange(2))

    def _one(self, principal: str, asked: Asked) -> None:
        gateway, sent_ms = self.rng.randrange(2), self.scheduler.now_ms
        self.scheduler.note(f"{principal} {gateway} {asked}")
        reply = self._call(principal, gateway, *_request(asked))
        answer = _answer(reply)
        is_void = reply.status == 403
        self._done.append(Done(asked, answer, sent_ms, self.scheduler.now_ms, is_void))
        self.scheduler.note(f"answered {answer}")
        self.seen[f"{asked.kind}: {answer.status}"] += 1
        if principal == _PRINCIPAL:
            possible = self._possible(gateway, sent_ms)
            if (not is_void) not in possible:
                raise Violation(f"{principal} was answered {answer}, and its right was {possible}")
            self.seen["certain right" if len(possible) == 1 else "a right in doubt"] += 1

    def _change_rights(self) -> None:
        for _ in range(RIGHTS):
            self.scheduler.sleep_ms(self.rng.choice((0, 100, 500, 2 * SECOND_MS)))
            has_right, gateway = not self._changes[-1].has_right, self.rng.randrange(2)
            # It may hold from the moment at which it is sent.
            self._changes.append(Change(self.scheduler.now_ms, 1 << 60, gateway, has_right))
            if has_right:
                self._call("User:bootstrap", gateway, "POST", "/v1/access/acls", {"acls": [_ACL]})
            else:
                query = "&".join(f"{name}={value}" for name, value in _ACL.items())
                self._call("User:bootstrap", gateway, "DELETE", f"/v1/access/acls?{query}")
            self._changes[-1] = self._changes[-1]._replace(answered_ms=self.scheduler.now_ms)
            self.scheduler.note(f"through {gateway} the right is {has_right}")
        self._ended()

    def _possible(self, gateway: int, sent_ms: int) -> set[bool]:
        """What the right may have been for a call that was sent then, through the gateway, and is answered now."""
        found = set()
        for number, change in enumerate(self._changes):
            ended_ms = 1 << 61
            if number + 1 < len(self._changes):
                later = self._changes[number + 1]
                ended_ms = later.answered_ms + (0 if later.gateway == gateway else RENEWED_MS)
            if ended_ms >= sent_ms:
                found.add(change.has_right)
        return found

    # What is judged in the end

    def _ended(self) -> None:
        self._under_way -= 1
        if self._under_way:
            return
        seen = [self._view(subject, self.rng.randrange(2)) for subject in SUBJECTS]
        if not is_serial(self._done, SUBJECTS, seen):
            told = "; ".join(f"{one.sent_ms}-{one.answered_ms} {one.asked} {one.answer}" for one in self._done)
            raise Violation(f"no serial order gives {dict(zip(SUBJECTS, seen, strict=True))} of {told}")
        self.seen["in a serial order"] += 1
        self.scheduler.at(0, self.stop)

    def _view(self, subject: str, gateway: int) -> tuple[Any, ...]:
        def get(path: str) -> Any:
            reply = self._call("User:bootstrap", gateway, "GET", f"/registry/{path}")
            return reply.body if reply.status == 200 else None

        live, every = (get(f"subjects/{subject}/versions{query}") or [] for query in ("", "?deleted=true"))
        versions = [(one, get(f"subjects/{subject}/versions/{one}?deleted=true")["id"], one in live) for one in every]
        level, mode = get(f"config/{subject}"), get(f"mode/{subject}")
        return versions, level and level["compatibilityLevel"], mode and mode["mode"]


def _request(asked: Asked) -> tuple[str, str, Any]:
    match asked.kind:
        case "register":
            kinds = {"id": "long", "x": asked.what.x, f"n{asked.what.number}": "int"}
            fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds.items() if kind]
            schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
            return "POST", f"/registry/subjects/{asked.subject}/versions", {"schema": schema}
        case "level":
            return "PUT", f"/registry/config/{asked.subject}", {"compatibility": asked.what}
        case "mode":
            return "PUT", f"/registry/mode/{asked.subject}", {"mode": asked.what}
        case "delete version":
            return "DELETE", f"/registry/subjects/{asked.subject}/versions/{asked.what}", None
    query = "?permanent=true" if asked.kind == "forget subject" else ""
    return "DELETE", f"/registry/subjects/{asked.subject}{query}", None


def _answer(reply: Reply) -> Answer:
    body = reply.body
    if reply.status != 200:
        return Answer(reply.status, body["error_code"])
    names = ("id", "compatibility", "mode")
    return Answer(200, next((body[name] for name in names if name in body), body) if isinstance(body, dict) else body)
