"""A context in the path: below ``/contexts/{context}`` is all of the registry, and unqualified names are of that context.

So a client that knows nothing of contexts uses one by its address alone. The path is rewritten before routing: subjects, and
``config`` and ``mode`` without one, get the context; a list and a schema by its id get it as a parameter. Rights are judged by
the qualified name, as if the client had sent it.

A slash at the end means nothing: Confluent's client for Java compares with all versions at ``…/versions/``.

Source: ``ContextFilter`` of Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.problem import refused
from gateway.registry_problem import PREFIX

CONTEXTS: Final = f"{PREFIX}/contexts/"
_QUALIFIED: Final = (":.", ":*:")


class ContextPathMiddleware:
    """Middleware that rewrites ``scope["path"]``, which is decoded, and ``scope["query_string"]``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request. Raise ``RequestRefused`` for a context that can be none."""
        path: str = scope["path"]
        if path.startswith(CONTEXTS):
            name, slash, rest = path.removeprefix(CONTEXTS).partition("/")
            if slash:
                parts = rest.split("/")
                context = context_named(name)
                scope["path"] = PREFIX + "/" + "/".join(_qualified(parts, context))
                scope["query_string"] = _with_context(scope["query_string"], parts, context)
        if scope["path"].startswith(f"{PREFIX}/"):
            scope["path"] = scope["path"].rstrip("/")
        return self._app(scope, receive, send)


def context_named(text: str) -> str:
    """Return the qualification of a context, ``:.name:``, from any spelling of it; empty for the default one. Raise
    ``RequestRefused``."""
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise refused("The name of a context has no colon.")
    name = name if name.startswith(".") else f".{name}"
    return "" if name == "." else f":{name}:"


def _qualified(parts: list[str], context: str) -> list[str]:
    if parts in (["config"], ["mode"]):
        return [*parts, context] if context else parts
    place = (
        0
        if parts[0] in ("config", "mode", "subjects")
        else next((n for n, one in enumerate(parts) if one == "subjects"), -1)
    )
    named = place + 1
    if place < 0 or named >= len(parts) or not parts[named] or parts[named].startswith(_QUALIFIED):
        return parts
    return [*parts[:named], context + parts[named], *parts[named + 1 :]]


def _with_context(query: bytes, parts: list[str], context: str) -> bytes:
    """Return the query with the context in it, where the call has no subject in its path. Of a repeated parameter the last
    counts."""
    if parts[:2] == ["schemas", "ids"]:
        name = "subject"
    elif parts in (["schemas"], ["subjects"]):
        name = "subjectPrefix"
    else:
        return query
    given = parse_qs(query.decode(errors="replace")).get(name, [""])[-1]
    value = given if given.startswith(_QUALIFIED) else context + given
    return query + f"&{name}={quote(value, safe='')}".encode()
