"""Lazy imports: names of a package that are imported on first use (PEP 562)."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in tidelog/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def names_on_use(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of ``package``. ``places``: the module of each name. It raises ``AttributeError`` for other
    names."""

    def of_package(name: str) -> Any:
        module = places.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        __import__(module)
        value = getattr(sys.modules[module], name)
        setattr(sys.modules[package], name, value)
        return value

    return of_package
