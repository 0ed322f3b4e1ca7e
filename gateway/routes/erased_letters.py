"""Dead letters of what is erased: records of other topics, which a request to erase reaches by a request of their own.

1. A letter says in a header which topic it came from, so the request in the topic of letters is about no others.
2. It is made before the topic's own, with the caller's right to delete in the topic of letters. Letters that are put between both
   come after the first: whoever wants to be sure asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple

from starlette.requests import Request
from typing_extensions import TypedDict

from gateway.access.needs import Need
from gateway.call import detached_from_call
from gateway.engine.erasures import ShownErasure
from gateway.gateway import allowing, engine_of, require
from gateway.queues.letter_proofs import PREFIX
from gateway.queues.redriving_typed import LETTER_PREFIX
from gateway.routes.administration import administer
from log_format.queues.state import QueuesState
from log_format.topic.config import dead_letter_topic
from log_format.topic_name import is_topic_name

_DELETE: Final = Need("Delete", "topic")

Header = tuple[str, bytes]
Ask = Callable[[str, Header], Awaitable[ShownErasure]]
"""Function that makes the request in a topic, about records that have a header."""


class ErasedLetters(TypedDict):
    """Dead letters of the topic. `erasure_id`: the request about them in their topic; null: the caller may not delete there."""

    topic: str
    erasure_id: str | None


class _Named(NamedTuple):
    name: str


async def erase_letters(request: Request, topic: str, ask: Ask) -> list[ErasedLetters]:
    """Make a request in each topic that has dead letters of ``topic``, as far as the caller may, and tell of all that it may see.

    Raises ``UnknownTopic``, and what ``ask`` raises.
    """
    engine = engine_of(request)
    may_delete, may_see = (allowing(request, operation, "topic") for operation in ("Delete", "Describe"))
    made: list[ErasedLetters] = []
    with detached_from_call():  # the request about the topic itself comes afterwards
        (await engine.topics.fresh(topic, engine.clock.monotonic_ms(), always=True)).require_state()
        state = await engine.queues.table.fresh()
        for name, header in sorted(set(_places(state, topic))):
            if not may_see(name) and not may_delete(name):
                continue
            if not (await engine.topics.fresh(name, engine.clock.monotonic_ms())).state.exists:
                continue
            if not may_delete(name):
                made.append({"topic": name, "erasure_id": None})
                continue
            shown = await _ask(request, ask, name, (header, topic.encode()))
            made.append({"topic": name, "erasure_id": shown.erasure.erasure_id})
    return made


async def _ask(request: Request, ask: Ask, name: str, within: Header) -> ShownErasure:
    """Make the request in a topic of letters, audited as one of its own."""

    async def work(letters: _Named) -> ShownErasure:
        return await ask(letters.name, within)

    require(request, "Delete", "topic", name)
    shown: ShownErasure = await administer(request, _DELETE, work, {"letters": _Named(name)})
    return shown


def _places(state: QueuesState, topic: str) -> Iterator[tuple[str, str]]:
    """Yield each topic that may have dead letters of ``topic``, and the header that says where they came from."""
    if is_topic_name(letters := dead_letter_topic(topic)):
        yield letters, f"{LETTER_PREFIX}topic"
    for queue in state.queues.values():
        if queue.row is not None and topic in queue.row.settings.topics:
            dead = queue.row.settings.dead_letter_topic
            if dead is not None:
                yield dead, f"{PREFIX}topic"
