"""Errors of usage in the words of the commands' other errors: what is wrong, in a line, and which help explains it.

Typer's own say "Invalid value for '--partitions' / '-p': Input should be greater than or equal to 1", in a box below the usage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import typer

ClickError: Final[Any] = typer.BadParameter.__mro__[2]
"""Click's error that ends a program, which Typer does not export."""


def usage_text(error: Any) -> str:
    """Return what is wrong with the command line, and which help explains it. ``error``: one of Typer's."""
    said = _said(error).rstrip(".")
    context = getattr(error, "ctx", None)
    help_ = "" if context is None else f"\n  '{context.command_path} --help' explains it."
    return f"{said}{'' if said.endswith('?') else '.'}{help_}"


def _said(error: Any) -> str:
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return _unknown_option(error)
    if kind == "MissingParameter" and parameter is not None:
        return f"{_name(parameter)} is missing"
    said: str = error.message
    for pattern, reworded in _REWORDED:
        if found := pattern.fullmatch(said):
            said = reworded(found)
            break
    if parameter is None:
        return said
    return f"{_name(parameter)} {said}" if said.startswith("must be ") else f"{_name(parameter)}: {said}"


def _unknown_option(error: Any) -> str:
    said = f"There is no option {error.option_name}"
    if error.possibilities:
        return f"{said}. Did you mean {' or '.join(sorted(error.possibilities))}?"
    context = error.ctx
    has_arguments = context is not None and any(each.param_type_name == "argument" for each in context.command.params)
    if not has_arguments:
        return said
    return f"{said}. A name that begins with a dash stands behind --: '{context.command_path} -- {error.option_name}'"


def _name(parameter: Any) -> str:
    """Return the option's long name, or the argument's."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).upper()
    return str(max(parameter.opts, key=len))


def _choice(found: re.Match[str]) -> str:
    *others, last = re.findall(r"'([^']*)'", found["known"])
    known = f"{', '.join(others)} or {last}" if others else last
    return f"must be {known}, not {found['value']!r}"


_REWORDED: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"Input should be greater than or equal to (.+)"), lambda found: f"must be at least {found[1]}"),
    (re.compile(r"Input should be less than or equal to (.+)"), lambda found: f"must be at most {found[1]}"),
    (re.compile(r"Input should be a valid integer.*"), lambda _: "must be a whole number"),
    (re.compile(r"Input should be a valid number.*"), lambda _: "must be a number"),
    (re.compile(r"(?:Value error, )?'(?P<value>.*?)' is not one of (?P<known>'.*')\.?"), _choice),
    (re.compile(r"Option '?(\S+?)'? requires an argument\."), lambda found: f"{found[1]} needs a value"),
    (
        re.compile(r"Got unexpected extra argument\S* \((.+)\)"),
        lambda found: f"There are too many arguments: {found[1]}",
    ),
    (re.compile(r"No such command '(.+?)'\.(.*)"), lambda found: f"There is no command {found[1]!r}.{found[2]}"),
    (re.compile(r"Value error, (.+)"), lambda found: found[1]),
)
"""Words of Typer, and what is said instead."""
