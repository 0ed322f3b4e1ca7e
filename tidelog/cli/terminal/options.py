"""Options that several commands have, taken as one parameter: ``call: AdminCall``, ``catalog: NamedCatalog``.

The parameter's class lists the options as its fields. ``with_options`` shows Typer the fields in place of the parameter.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Values of options. A field is annotated as Typer wants a parameter, and has the option's default."""

    def in_force(self) -> AbstractContextManager[None]:
        """Return the context in which the command runs."""
        return nullcontext()


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the signature for Typer; unchanged if it takes no ``Options``."""
    signature = inspect.signature(command, eval_str=True)
    taken = {name: each.annotation for name, each in signature.parameters.items() if _is_options(each.annotation)}
    if not taken:
        return command
    shown: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        if name in taken:
            shown += inspect.signature(taken[name], eval_str=True).parameters.values()
        else:
            shown.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def asked(**arguments: Any) -> Any:
        made = {name: _made(kind, arguments) for name, kind in taken.items()}
        with ExitStack() as contexts:
            for options in made.values():
                contexts.enter_context(options.in_force())
            return command(**arguments, **made)

    asked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return asked


def _is_options(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Options)


def _made(kind: type[Options], arguments: dict[str, Any]) -> Options:
    """Take the options' values out of the arguments."""
    return kind(**{name: arguments.pop(name) for name in inspect.signature(kind).parameters})
