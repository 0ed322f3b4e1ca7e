"""Defaults of options, from the environment and from a TOML file.

Typed options take precedence, then ``TIDELOG_…``, then the file. The file uses the options' names::

    url = "http://a:8080,http://b:8080"     # for every command that has the option: see SHARED

    [consume]                               # for one command
    format = "json"

    [topic.create]
    partitions = 4

In the environment these are ``TIDELOG_URL``, ``TIDELOG_CONSUME_FORMAT``, ``TIDELOG_TOPIC_CREATE_PARTITIONS``; several values of
one option are separated by white space. An unknown name in the file is an error; in the environment it may be another
program's.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

SHARED: Final = ("url", "token-file", "ca-file", "timeout", "store")
"""Names allowed before the first table, where they apply to all commands."""


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the settings file when none is given."""
    directory = environment.get("XDG_CONFIG_HOME")
    return (Path(directory) if directory else Path.home() / ".config") / "tidelog" / "config.toml"


def is_given(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether there is a settings file, of which a program without ``--config`` reads more than nothing."""
    named = environment.get("TIDELOG_CONFIG")
    return named != os.devnull if named else default_path(environment).exists()


def load(context: typer.Context, path: Path | None, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the defaults of every command below ``context``, in the form of its ``default_map``.

    Raises ``typer.BadParameter`` for a given file that is missing, for invalid TOML, and for a name or value that no option
    accepts.
    """
    chosen = path or default_path(environment)
    settings: dict[str, Any] = {}
    if path is not None or chosen.is_file():
        try:
            settings = tomllib.loads(chosen.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise typer.BadParameter(f"the settings file {chosen}: {why}") from None
    found = [name for name in settings if name.replace("_", "-") in SHARED]
    shared: dict[str, Any] = {name.replace("_", "-"): settings.pop(name) for name in found}
    if environment.get("TIDELOG_TOKEN") or environment.get("TIDELOG_TOKEN_FILE"):
        shared.pop("token-file", None)
    return _Reader(context, chosen, shared, environment).group(context.command, settings, ())


class _Reader:
    def __init__(
        self, context: typer.Context, path: Path, shared: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        self._context = context
        self._path = path
        self._shared = shared
        self._environment = environment

    def group(self, command: Any, given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        """Return the defaults of the commands in a group, by name."""
        for name in given:
            if name not in command.commands:
                raise self._refused((*names, name), "is neither a setting nor a command")
        found = {}
        for name, below in command.commands.items():
            table = given.get(name, {})
            if not isinstance(table, dict):
                raise self._refused((*names, name), "is a command, so its settings must be a table")
            read = self.group if hasattr(below, "commands") else self._command
            found[name] = read(below, table, (*names, name))
        return found

    def _command(self, command: Any, given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        options = dict(_options(command))
        found: dict[str, Any] = {}
        for name, value in {**{name: self._shared[name] for name in self._shared if name in options}, **given}.items():
            option = options.get(name.replace("_", "-"))
            if option is None:
                raise self._refused((*names, name), "is not a setting of this command")
            try:
                if option.multiple != isinstance(value, list):
                    raise typer.BadParameter("a list is expected" if option.multiple else "one value is expected")
                option.process_value(self._context, value)
            except typer.BadParameter as error:
                raise self._refused((*names, name), error.message) from None
            found[option.name] = value
        for name, option in options.items():
            variable = "_".join(("TIDELOG", *names, name)).upper().replace("-", "_")
            text = self._environment.get(variable)
            if text:
                found[option.name] = text.split() if option.multiple else text
        return found

    def _refused(self, names: tuple[str, ...], what: str) -> typer.BadParameter:
        return typer.BadParameter(f"the settings file {self._path}: {'.'.join(names)}: {what}")


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command's options by their long names."""
    for parameter in command.params:
        names = [name for name in parameter.opts if name.startswith("--")]
        if parameter.param_type_name == "option" and names and names[0] != "--help":
            yield names[0].removeprefix("--"), parameter
