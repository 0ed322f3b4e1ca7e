"""Whether the packages that are imported here are the installed ones.

Python looks beside the user's own script first, and imports a file ``log_format.py`` there instead of ours (decision 019).
This runs with each ``import tidelog``, so it imports only what the interpreter has imported already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in tidelog/__init__.py
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def check_log_format() -> None:
    """Raise ``ImportError`` when ``log_format`` is not the one beside ``tidelog``. To be called before that is imported."""
    spec = _found("log_format")
    if spec is None or spec.origin is None:
        return
    found, ours = spec.origin, os.path.join(os.path.dirname(os.path.dirname(__file__)), "log_format")
    if os.path.dirname(found) == ours or os.path.dirname(os.path.realpath(found)) == os.path.realpath(ours):
        return
    named = os.path.dirname(found) if os.path.basename(found) == "__init__.py" else found
    raise ImportError(
        f"{named} is imported in place of Tidelog's own package log_format: rename it",
        name="log_format",
        path=found,
    )


def _found(name: str) -> ModuleSpec | None:
    """As ``importlib.util.find_spec``. None, too, for a module that code has put there without a spec."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    specs = (finder.find_spec(name, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec is not None), None)
