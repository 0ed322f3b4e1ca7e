"""``infra/local``'s services as Docker's compose would start them: several files merged, variables put in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

LOCAL = Path(__file__).resolve().parents[2] / "infra/local"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class VariableMissing(Exception):
    """A variable that a file demands (``${NAME:?message}``) is not set; the text is its message."""


def services(*files: str, **environment: str) -> dict[str, Any]:
    """Return the services of ``compose.yaml`` and of the named files beside it, such as ``auth``.

    Raises:
        VariableMissing: ``environment`` lacks a variable that one of the files demands.
    """

    def value_of(found: re.Match[str]) -> str:
        name, kind, text = found.groups()
        if environment.get(name):
            return environment[name]
        if kind == "?":
            raise VariableMissing(f"{name}: {text}")
        return text or ""

    merged: dict[str, Any] = {}
    for file in ("compose", *files):
        parsed = yaml.safe_load(_VARIABLE.sub(value_of, (LOCAL / f"{file}.yaml").read_text()))
        merged = _merge(merged, parsed["services"])
    return merged


def _merge(before: Any, after: Any) -> Any:
    if isinstance(before, dict) and isinstance(after, dict):
        return before | {name: _merge(before.get(name), value) for name, value in after.items()}
    return [*before, *after] if isinstance(before, list) and isinstance(after, list) else after
