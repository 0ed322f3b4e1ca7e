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
_OPEN_NAME: Final = re.compile(r'(?:[^"]|"(?:[^"]|"")*"(?!"))*("(?:[^"]|"")*)')
"""A line within a name in quotes; its group is what there is of the name. Two quotes within it are one of its characters."""

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
            return self._within_quotes(quoted[1], typed)
        before = line[: len(line) - len(typed)].split()
        if before and before[-1].lower() in _BEFORE_A_TABLE:
            return _beginning(typed, self._names())
        columns = [self._topics.written(name) for name in self._topics.columns()]
        found = _beginning(typed, [*self._names(), *columns, *self._topics.members()])
        table, dot, begun = typed.rpartition(".")
        if dot and not found:  # a column behind its table's name or alias
            return [f"{table}.{name}" for name in _beginning(begun, columns)]
        return _unique([*found, *self._words(typed)])

    def _within_quotes(self, begun: str, typed: str) -> list[str]:
        """Return what may stand in place of ``typed``, of which ``begun`` is a part (a name behind its table's and a dot), or
        the other way round (a name with a delimiter in it)."""
        table = typed[: max(0, len(typed) - len(begun))]
        columns = [quote_identifier(name) for name in self._topics.columns()]
        if table:
            members = self._topics.members()
            names = [*columns, *(path[len(table) :] for path in members if path.lower().startswith(table.lower()))]
        else:
            names = [*map(quote_identifier, self._topic_names()), *columns]
        skipped = max(0, len(begun) - len(typed))
        return _unique(table + name[skipped:] for name in names if name.lower().startswith(begun.lower()))

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
        return [self._topics.written(name) for name in self._topic_names()]

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


def files(typed: str = "") -> list[str]:
    """Return the files and directories, the latter with a slash, that begin with ``typed``."""
    directory, _, start = typed.rpartition("/")
    found = sorted(Path(f"{directory}/" if directory else ".").expanduser().glob(f"{start}*"))
    return [str(each) + "/" * each.is_dir() for each in found]


def _beginning(typed: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin so, whatever the case and the quotes."""
    begun = typed.lower()
    return _unique(word for word in words if word.lower().startswith(begun) or _bare(word).startswith(_bare(typed)))


def _bare(word: str) -> str:
    return word.replace('"', "").lower()


def _unique(words: Iterable[str]) -> list[str]:
    return sorted(set(words))
