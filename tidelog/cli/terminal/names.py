"""Arguments that name topics, groups and queues: completed by shells, and corrected in errors by the most similar name.

Both ask the gateway, for ``COMPLETION_TIMEOUT_MS`` at most, since the user waits. On any error no names are offered, and
nothing is written.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from log_format.errors import ErrorCode, TidelogError
from log_format.topic.config import SETTINGS, ChoiceSetting
from tidelog.admin import Admin
from tidelog.cli.terminal.settings_file import default_path

COMPLETION_TIMEOUT_MS: Final = 500
NAMES_MAX: Final = 200
"""Number of names offered: more than a user reads."""


RUNNING: ContextVar[typer.Context | None] = ContextVar("RUNNING", default=None)
"""Running command, whose options say how gateways are reached."""


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose name begins with ``incomplete``."""
    return _asked(context, lambda admin: [topic.name for topic in admin.list_topics(incomplete)], incomplete)


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the groups whose name begins with ``incomplete``."""
    return _asked(context, lambda admin: [group.group for group in admin.list_groups()], incomplete)


def complete_queues(context: typer.Context, incomplete: str) -> list[str]:
    """Return the queues whose name begins with ``incomplete``."""
    return _asked(context, lambda admin: [queue.queue for queue in admin.list_queues()], incomplete)


def complete_subjects(context: typer.Context, incomplete: str) -> list[str]:
    """Return the schema registry's subjects whose name begins with ``incomplete``."""
    return _asked(context, lambda admin: admin.schemas().subjects(incomplete), incomplete)


def similar_name(error: TidelogError) -> str | None:
    """Return the existing topic, group or queue most similar to the wrong name in the error; None if there is none."""
    context = RUNNING.get()
    if context is None or error.code not in _MEANT:
        return None
    kind, complete = _MEANT[error.code]
    wrong = error.fields.get(kind) or context.params.get(kind)
    if not isinstance(wrong, str) or not wrong:
        return None
    found = difflib.get_close_matches(wrong, complete(context, wrong[:1]), 1)
    return found[0] if found else None


def complete_settings(incomplete: str) -> list[str]:
    """Return the topic settings that begin with ``incomplete``, as ``NAME=``, and the values of a setting with choices."""
    name, equals, _ = incomplete.partition("=")
    setting = SETTINGS.get(name)
    if equals and isinstance(setting, ChoiceSetting):
        return [f"{name}={choice}" for choice in setting.choices if f"{name}={choice}".startswith(incomplete)]
    return [f"{each}=" for each in SETTINGS if each.startswith(incomplete)]


def complete_setting_names(incomplete: str) -> list[str]:
    """Return the topic settings whose name begins with ``incomplete``."""
    return [each for each in SETTINGS if each.startswith(incomplete)]


_MEANT: Final[Mapping[ErrorCode, tuple[str, Callable[[typer.Context, str], list[str]]]]] = {
    ErrorCode.UNKNOWN_TOPIC: ("topic", complete_topics),
    ErrorCode.UNKNOWN_GROUP: ("group", complete_groups),
    ErrorCode.UNKNOWN_QUEUE: ("queue", complete_queues),
}
TopicArgument = Annotated[str, typer.Argument(help="The topic's name.", autocompletion=complete_topics)]
TopicsArgument = Annotated[list[str], typer.Argument(help="The topics' names.", autocompletion=complete_topics)]
GroupArgument = Annotated[str, typer.Argument(help="The group's name.", autocompletion=complete_groups)]
SubjectArgument = Annotated[str, typer.Argument(help="The subject's name.", autocompletion=complete_subjects)]
QueueArgument = Annotated[str, typer.Argument(help="The queue's name.", autocompletion=complete_queues)]


def _asked(context: typer.Context, ask: Callable[[Admin], list[str]], incomplete: str) -> list[str]:
    try:
        configured = _configured()
        url = context.params.get("url") or os.environ.get("TIDELOG_URL") or configured.get("url")
        token_file = _token_file(context, configured)
        wait_ms = COMPLETION_TIMEOUT_MS
        with Admin(url, token_file=token_file, timeout_ms=wait_ms, request_timeout_ms=wait_ms) as admin:
            names = ask(admin)
    except (TidelogError, OSError, ValueError, TypeError):
        return []
    given = {
        name for value in context.params.values() for name in (value if isinstance(value, list | tuple) else [value])
    }
    return [name for name in names if name.startswith(incomplete) and name not in given][:NAMES_MAX]


def _token_file(context: typer.Context, configured: Mapping[str, Any]) -> Any:
    """Return the typed token file, else None if the environment has a token, else the settings file's."""
    given = context.params.get("token_file")
    if given is not None or os.environ.get("TIDELOG_TOKEN") or os.environ.get("TIDELOG_TOKEN_FILE"):
        return given
    return configured.get("token-file", configured.get("token_file"))


def _configured() -> Mapping[str, Any]:
    """Return the settings file's content, which nothing else reads while a shell completes."""
    chosen = os.environ.get("TIDELOG_CONFIG")
    path = Path(chosen) if chosen else default_path()
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
