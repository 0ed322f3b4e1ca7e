"""One user's requests, each with a secret that it has, and what is noted of the answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.torture.tortured.rights_calls import Answer, Calls
from tests.torture.tortured.rights_history import Asked, RightsHistory
from tests.torture.tortured.rights_operator import Right, Secret, User


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer, which gateway gave it, and to which secret."""

    answer: Answer
    gateway: int
    secret: Secret


class Asker:
    """Belongs to one thread."""

    def __init__(self, user: User, urls: Sequence[str], history: RightsHistory, rng: random.Random) -> None:
        self.user = user
        self.rng = rng
        self._history = history
        self._calls = Calls(urls)
        self._last = 0

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Told:
        """One request, once, to any gateway."""
        gateway, secret = self.rng.randrange(len(self._calls.urls)), chosen(self.user, self.rng)
        return Told(
            answer=self._calls.ask(gateway, secret.text, method, path, body, headers), gateway=gateway, secret=secret
        )

    def note(self, told: Told, what: str, *rights: Right, status: int | None = None, **more: Any) -> None:
        """Remember an answer. ``status``: of this part of it; None: its own. ``more``: members of ``Asked``."""
        answer = told.answer
        self._history.asked.append(
            Asked(
                user=self.user.name,
                what=what,
                gateway=told.gateway,
                secret=told.secret.holds,
                rights=tuple(self.user.rights[right] for right in rights),
                began=answer.began,
                ended=answer.ended,
                status=answer.status if status is None else status,
                code=answer.code,
                **more,
            )
        )

    def next_number(self) -> int:
        """One that this user has used for nothing else."""
        self._last += 1
        return self._last


def chosen(user: User, rng: random.Random) -> Secret:
    """Mostly the newest, else one of those before it: what had to end is tried."""
    secrets = user.secrets
    return secrets[-1] if rng.random() < 0.75 else rng.choice(secrets)
