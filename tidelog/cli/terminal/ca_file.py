"""``--ca-file``: an option of every command that asks a gateway."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

VARIABLE: Final = "TIDELOG_CA_FILE"

CaFileOption = Annotated[
    str | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="PEM file of the authorities that may have signed an https gateway's certificate. Default: the file that "
        "TIDELOG_CA_FILE names, else the system's authorities.",
    ),
]


def with_ca_file(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the option behind its ``--token-file``; unchanged if it has no ``url``.

    Every client that the command makes then trusts the file, since clients read the variable that is set meanwhile.
    """
    signature = inspect.signature(command, eval_str=True)
    given = list(signature.parameters.values())
    names = [each.name for each in given]
    if "url" not in names:
        return command

    @functools.wraps(command)
    def asked(*, ca_file: str | None, **arguments: Any) -> Any:
        with _trusting(ca_file):
            return command(**arguments)

    option = inspect.Parameter("ca_file", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CaFileOption)
    shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in given]
    shown.insert(names.index("token_file" if "token_file" in names else "url") + 1, option)
    asked.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return asked


@contextmanager
def _trusting(ca_file: str | None) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    if ca_file is not None:
        os.environ[VARIABLE] = ca_file
    try:
        yield
    finally:
        if ca_file is not None and before is None:
            del os.environ[VARIABLE]
        elif before is not None:
            os.environ[VARIABLE] = before
