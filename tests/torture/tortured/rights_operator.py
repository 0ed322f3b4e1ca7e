"""The operator of a run gives and takes rights, rotates and revokes tokens, at any gateway that is up.

The killer kills and freezes gateways meanwhile.

Rights come and go by each kind of rule: an ACL of the user by name, one of its group by prefix, a deny over an allow, a role.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.torture.tortured.rights_calls import Answer, Calls
from tests.torture.tortured.rights_history import Change, RightsHistory, Timeline
from tests.torture.tortured.service import Service

Right = tuple[str, str, str]
"""An operation, a resource type and a resource."""
KINDS = ("own", "group", "deny", "role")
OVERLAPS_SECONDS = (0.0, 1.0, 8.0)
INSIST_SECONDS = 60.0
FROZEN_SECONDS = (2.0, 20.0)
"""A gateway that stands still longer than five seconds goes on with rights that have changed since."""
TROUBLED_SECONDS = 15.0
"""After a gateway is back: until then another may still think that it is gone, or send it what is lost."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A token's text, and while it holds."""

    text: str
    holds: Timeline


@dataclass(slots=True)
class User:
    """``secrets``: the newest last. ``kind``: by which rule it gets its rights."""

    name: str
    kind: str
    rights: dict[Right, Timeline]
    secrets: list[Secret] = field(default_factory=list)
    token_id: str = ""

    @property
    def principal(self) -> str:
        return f"User:{self.name}"

    @property
    def group(self) -> str:
        return f"Group:of-{self.name}"


class Gateways:
    """A lock for each gateway: it is not killed while a change is under way there. ``changed``: at how many changes are made."""

    def __init__(self, service: Service, changed: int) -> None:
        self.service = service
        self.locks = [threading.Lock() for _ in service.gateways]
        self.changed = range(changed)


class Operator:
    """``token``: of the super user. Belongs to one thread."""

    def __init__(self, gateways: Gateways, token: str, users: list[User], rng: random.Random) -> None:
        self._gateways = gateways
        self._token = token
        self._users = users
        self._rng = rng
        self._calls = Calls(gateways.service.urls, INSIST_SECONDS)
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        """Everyone has a token; half of the rights are there."""
        for user in self._users:
            if user.kind == "deny":
                for right in user.rights:
                    self._insist("POST", "/v1/access/acls", {"acls": [_acl(user.principal, right)]})
            if user.kind == "role":
                for right in user.rights:
                    acl = _acl(f"Role:{_role(user, right)}", right)
                    self._insist("POST", "/v1/access/acls", {"acls": [acl]})
            self._new_token(user)
            for right in user.rights:
                self._set(user, right, self._rng.random() < 0.6)

    def run(self, stopping: threading.Event, pace_seconds: float) -> None:
        """One change after another until stopped."""
        while not stopping.wait(self._rng.uniform(0, 2 * pace_seconds)):
            user = self._rng.choice(self._users)
            deed = self._rng.choice(("right", "right", "right", "right", "rotate", "revoke"))
            if deed == "right":
                # Rather given than taken, since most requests need several.
                taken = [one for one, timeline in user.rights.items() if not timeline.changes[-1].value]
                right = self._rng.choice(taken if taken and self._rng.random() < 0.4 else list(user.rights))
                self._set(user, right, right in taken)
            elif deed == "rotate":
                self._rotate(user)
            else:
                self._revoke(user)
            self.counts[f"changes: {deed}"] = self.counts.get(f"changes: {deed}", 0) + 1

    def _set(self, user: User, right: Right, value: bool) -> None:
        if user.kind == "role":
            role = f"/v1/access/roles/{_role(user, right)}"
            gateway, done = self._insist("PUT", role, {"members": [user.principal] if value else []})
        else:
            acl = _acl(user.principal, right)
            if user.kind == "group":
                acl |= {"principal": user.group, "resource": right[2][:-1], "pattern": "prefix"}
            elif user.kind == "deny":
                acl |= {"permission": "deny"}
            if value != (user.kind == "deny"):
                gateway, done = self._insist("POST", "/v1/access/acls", {"acls": [acl]})
            else:
                query = "&".join(f"{name}={text}" for name, text in acl.items())
                gateway, done = self._insist("DELETE", f"/v1/access/acls?{query}")
        _changed(user.rights[right], value, gateway, done)

    def _new_token(self, user: User) -> None:
        wanted = {"principal": user.principal, "groups": [user.group]}
        gateway, made = self._insist("POST", "/v1/access/tokens", wanted)
        user.token_id = made.body["id"]
        self._shown(user, gateway, made)

    def _rotate(self, user: User) -> None:
        overlap = self._rng.choice(OVERLAPS_SECONDS)
        path = f"/v1/access/tokens/{user.token_id}:rotate"
        gateway, made = self._insist("POST", path, {"overlap_ms": int(overlap * 1000)})
        *older, last = [one.holds for one in user.secrets]
        _changed(last, False, gateway, made, overlap)
        for holds in older:  # at most two live: one before the last ends now, whatever it was promised
            _changed(holds, False, gateway, made)
        self._shown(user, gateway, made)

    def _revoke(self, user: User) -> None:
        gateway, done = self._insist("DELETE", f"/v1/access/tokens/{user.token_id}")
        for one in user.secrets:
            _changed(one.holds, False, gateway, done)
        self._new_token(user)

    def _shown(self, user: User, gateway: int, made: Answer) -> None:
        secret = Secret(made.body["token"], Timeline())
        _changed(secret.holds, True, gateway, made)
        user.secrets = [*user.secrets[-3:], secret]

    def _insist(self, method: str, path: str, body: Any = None) -> tuple[int, Answer]:
        """A change, until it is done; at which gateway, and from its first try to its answer."""
        deadline = time.monotonic() + INSIST_SECONDS
        while True:
            for gateway in self._rng.sample(self._gateways.changed, len(self._gateways.changed)):
                if self._gateways.locks[gateway].acquire(blocking=False):
                    break
            else:
                time.sleep(0.05)
                continue
            try:
                answer = self._calls.ask(gateway, self._token, method, path, body)
            finally:
                self._gateways.locks[gateway].release()
            if 200 <= answer.status < 300:
                return gateway, answer
            if answer.status != 503 or answer.body["may_have_happened"] or time.monotonic() > deadline:
                raise AssertionError(f"{method} {path} is answered {answer.status} {answer.body}")
            time.sleep(0.1)


class Killer:
    """Kills or freezes one gateway after another, and brings it back."""

    def __init__(self, gateways: Gateways, rng: random.Random, history: RightsHistory) -> None:
        self._gateways = gateways
        self._rng = rng
        self._history = history

    def run(self, stopping: threading.Event, pace_seconds: float) -> None:
        """Until stopped; all gateways are up in the end."""
        while not stopping.wait(self._rng.uniform(0.5, 1.5) * pace_seconds):
            index = self._rng.randrange(len(self._gateways.locks))
            gateway = self._gateways.service.gateways[index]
            with self._gateways.locks[index]:
                began = time.monotonic()
                if self._rng.random() < 0.5:
                    gateway.kill()
                    stopping.wait(self._rng.uniform(0, 2))
                    gateway.start()
                else:
                    gateway.signal(signal.SIGSTOP)
                    stopping.wait(self._rng.uniform(*FROZEN_SECONDS))
                    gateway.signal(signal.SIGCONT)
                    self._history.frozen.append((began, time.monotonic()))
                self._history.troubled.append((began, time.monotonic() + TROUBLED_SECONDS))


def _acl(principal: str, right: Right) -> dict[str, str]:
    operation, resource_type, resource = right
    return {
        "principal": principal,
        "operation": operation,
        "resource_type": resource_type,
        "resource": resource,
        "pattern": "literal",
        "permission": "allow",
    }


def _role(user: User, right: Right) -> str:
    return "-".join((user.name, *right))


def _changed(timeline: Timeline, value: bool, gateway: int, done: Answer, later: float = 0.0) -> None:
    timeline.changes.append(Change(value=value, gateway=gateway, began=done.began, ended=done.ended, later=later))
