"""Options that select records: ``--filter`` and ``--key``, applied by the gateway."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.types.filter import Filter

FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="NAME=VALUE",
        help="Only records with this header; '*': any value. Repeatable: all must match. The gateway filters.",
    ),
]
OnlyKeyOption = Annotated[str | None, typer.Option("--key", help="Only records with this key.")]


def filter_of(conditions: list[str] | None, key: str | None) -> Filter | None:
    """Return the filter for ``--filter`` and ``--key``; None without both. Raises ``ValueError``."""
    if not conditions and key is None:
        return None
    pairs = []
    for condition in conditions or ():
        name, equals, value = condition.partition("=")
        if not equals:
            raise ValueError(f"--filter {condition!r} is not NAME=VALUE")
        pairs.append((name, value))
    return Filter(headers=pairs, key=key)
