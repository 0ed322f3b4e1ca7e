"""Arguments that name topics and groups, which shells complete by asking the gateway.

The shell waits for the answer: ``COMPLETION_TIMEOUT_MS`` at most. On any error no names are offered, and nothing is written.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from log_format.errors import TidelogError
from tidelog.admin import Admin
from tidelog.cli.terminal.settings_file import default_path

COMPLETION_TIMEOUT_MS: Final = 500
NAMES_MAX: Final = 200
"""More than a user reads."""


def complete_topics(context: typer.Context, incomplete: str) -> list[str]:
    """The topics whose name begins so."""
    return _asked(context, lambda admin: [topic.name for topic in admin.list_topics(incomplete)], incomplete)


def complete_groups(context: typer.Context, incomplete: str) -> list[str]:
    """The groups whose name begins so."""
    return _asked(context, lambda admin: [group.group for group in admin.list_groups()], incomplete)


TopicArgument = Annotated[str, typer.Argument(help="The topic's name.", autocompletion=complete_topics)]
TopicsArgument = Annotated[list[str], typer.Argument(help="The topics' names.", autocompletion=complete_topics)]
GroupArgument = Annotated[str, typer.Argument(help="The group's name.", autocompletion=complete_groups)]


def _asked(context: typer.Context, ask: Callable[[Admin], list[str]], incomplete: str) -> list[str]:
    try:
        url = context.params.get("url") or os.environ.get("TIDELOG_URL") or _configured_url()
        with Admin(url, timeout_ms=COMPLETION_TIMEOUT_MS, request_timeout_ms=COMPLETION_TIMEOUT_MS) as admin:
            names = ask(admin)
    except (TidelogError, OSError, ValueError, TypeError):
        return []
    given = {
        name for value in context.params.values() for name in (value if isinstance(value, list | tuple) else [value])
    }
    return [name for name in names if name.startswith(incomplete) and name not in given][:NAMES_MAX]


def _configured_url() -> Any:
    """What the settings file says: nothing else reads it while a shell completes."""
    chosen = os.environ.get("TIDELOG_CONFIG")
    path = Path(chosen) if chosen else default_path()
    return tomllib.loads(path.read_text(encoding="utf-8")).get("url") if path.is_file() else None
