"""What Tab offers in the shell of ``tidelog sql``: dot commands and their arguments, topics, columns, functions and keywords.

The words are looked for by how the line goes on: after ``from`` and the like a table, elsewhere whatever SQL has. Keywords and
functions come in the case in which they were begun, and a name that needs quotes comes in quotes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from log_format.records.sql import quote_identifier

if TYPE_CHECKING:
    from tidelog.cli.sql.topic_database import TopicDatabase

DELIMITERS: Final = " \t\n,()[]{}=<>+-*/%|;:'"
"""Characters that end a word: readline replaces the word only."""
_BEFORE_A_TABLE: Final = frozenset({"from", "join", "into", "update", "table", "view", "describe", "desc", "summarize"})
NAMES_KEPT_S: Final = 5.0
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_OPEN_NAME: Final = re.compile(r'(?:[^"]|"[^"]*")*("[^"]*)')
"""A line within a name in quotes; its group is what there is of the name."""

Offered = Callable[[], Iterable[str]]
"""Function that returns the words for a command's argument."""


class Completion:
    """Completes lines of a shell over these topics.

    ``commands``: dot commands, with the words that their argument may be. ``by_file``: those whose argument is a file, with a
    function that returns the files that begin so. Asks the gateway for the names of topics, and keeps them for
    ``NAMES_KEPT_S``; raises what that raises. Used by one thread.
    """

    def __init__(
        self,
        topics: TopicDatabase,
        commands: Mapping[str, Offered | None],
        by_file: Mapping[str, Callable[[str], list[str]]],
    ) -> None:
        self._topics = topics
        self._commands = commands
        self._by_file = by_file
        self._known: tuple[float, list[str]] | None = None

    def __call__(self, line: str) -> list[str]:
        """Return the words that may stand in place of the line's last one; it is what follows the last delimiter."""
        typed = line[max(map(line.rfind, DELIMITERS)) + 1 :]
        if line.startswith("."):
            return self._of_command(line, typed)
        quoted = _OPEN_NAME.fullmatch(line)
        if quoted is not None:
            begun = quoted[1]
            whole = (quote_identifier(name) for name in [*self._topic_names(), *self._topics.columns()])
            return _unique(name[len(begun) - len(typed) :] for name in whole if name.lower().startswith(begun.lower()))
        before = line[: len(line) - len(typed)].split()
        if before and before[-1].lower() in _BEFORE_A_TABLE:
            return _beginning(typed, self._names())
        columns = [self._as_typed(name) for name in self._topics.columns()]
        found = _beginning(typed, [*self._names(), *columns, *self._topics.members()])
        table, dot, begun = typed.rpartition(".")
        if dot and not found:  # a column behind its table's name or alias
            return [f"{table}.{name}" for name in _beginning(begun, columns)]
        return _unique([*found, *self._words(typed)])

    def _of_command(self, line: str, typed: str) -> list[str]:
        name, space, argument = line.partition(" ")
        if not space:
            return _beginning(typed, self._commands)
        if name in self._by_file:
            skipped = len(argument) - len(typed)
            return [each[skipped:] for each in self._by_file[name](argument)]
        offered = self._commands.get(name)
        return [] if offered is None else _beginning(typed, offered())

    def _names(self) -> list[str]:
        return [self._as_typed(name) for name in self._topic_names()]

    def _topic_names(self) -> list[str]:
        now_s = time.monotonic()
        if self._known is None or now_s - self._known[0] > NAMES_KEPT_S:
            self._known = now_s, self._topics.names()
        return self._known[1]

    def _words(self, typed: str) -> list[str]:
        """Return the keywords and functions that begin so; none for an empty word, of which there would be a thousand."""
        if not typed:
            return []
        found = _beginning(typed, self._vocabulary)
        return [word.upper() for word in found] if typed.isupper() else found

    @cached_property
    def _vocabulary(self) -> list[str]:
        return self._topics.vocabulary()

    def _as_typed(self, name: str) -> str:
        """Return the name as a statement has it: in quotes if it has other characters than a plain one, or is a word of SQL."""
        is_plain = _PLAIN.fullmatch(name) is not None and name.lower() not in self._topics.reserved
        return name if is_plain else quote_identifier(name)


def files(typed: str = "") -> list[str]:
    """Return the files and directories, the latter with a slash, that begin with ``typed``."""
    directory, _, start = typed.rpartition("/")
    found = sorted(Path(f"{directory}/" if directory else ".").expanduser().glob(f"{start}*"))
    return [str(each) + "/" * each.is_dir() for each in found]


def _beginning(typed: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin so, whatever the case; a quoted one also by its name."""
    begun = typed.lower()
    return _unique(word for word in words if word.lower().startswith((begun, f'"{begun}')))


def _unique(words: Iterable[str]) -> list[str]:
    return sorted(set(words))
