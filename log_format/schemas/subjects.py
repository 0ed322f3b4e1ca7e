"""Names of subjects. ``:.context:name`` is a subject of a context; any other name is of the default context.

A context has schemas and subjects of its own. Its name begins with a dot; here the default context is the empty text, and in
the API ``.``. ``:.context:`` without a name is the context itself, which can have a compatibility and a mode.

Source: Confluent's contexts of schemas.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_CONTEXT: Final = ""
SUBJECT_CHARACTERS_MAX: Final = 1_000
"""Most characters of a qualified name: a topic's name, a record's name and a context fit."""
RESERVED: Final = frozenset(("__GLOBAL", "__EMPTY"))
"""Names that stand for all subjects and for the empty one in Confluent's clients."""
_QUALIFIED: Final = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def split(subject: str) -> tuple[str, str]:
    """Return context and name of a subject."""
    if not subject.startswith(":."):
        return DEFAULT_CONTEXT, subject
    match = _QUALIFIED.fullmatch(subject)
    if match is None:
        return DEFAULT_CONTEXT, subject
    return DEFAULT_CONTEXT if match[1] == "." else match[1], match[2]


def qualified(context: str, name: str) -> str:
    """Return the name of a context's subject."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def plain(subject: str) -> str:
    """Return the subject's one spelling: ``:.:name`` is ``name``."""
    return qualified(*split(subject))


def is_name(subject: str) -> bool:
    """Return whether a text may be a subject's name or the beginning of one: not empty, not too long, no control characters."""
    return 0 < len(subject) <= SUBJECT_CHARACTERS_MAX and _CONTROL.search(subject) is None


def is_valid(subject: str) -> bool:
    """Return whether schemas can be registered under the name."""
    name = split(subject)[1]
    return bool(name) and name not in RESERVED and is_name(subject)


def in_context(subject: str, context: str) -> str:
    """Return the subject that a reference means in a schema of ``context``: an unqualified name is of that context."""
    return qualified(context, subject) if not subject.startswith(":.") else plain(subject)
