"""Check that the imported packages are the installed ones.

Python searches the directory of the user's script first, and would import a file ``log_format.py`` there instead of Tidelog's
package (decision 019). This runs with every ``import tidelog``, so it imports only modules that the interpreter has already
loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in tidelog/__init__.py
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def check_log_format() -> None:
    """Raise ``ImportError`` if ``log_format`` is not the package next to ``tidelog``. Must be called before ``log_format`` is
    imported."""
    spec = _found("log_format")
    if spec is None or spec.origin is None:
        return
    found, ours = spec.origin, os.path.join(os.path.dirname(os.path.dirname(__file__)), "log_format")
    if os.path.dirname(found) == ours or os.path.dirname(os.path.realpath(found)) == os.path.realpath(ours):
        return
    named = os.path.dirname(found) if os.path.basename(found) == "__init__.py" else found
    raise ImportError(
        f"{named} hides Tidelog's own package log_format: rename it",
        name="log_format",
        path=found,
    )


def _found(name: str) -> ModuleSpec | None:
    """Return the module's spec, as ``importlib.util.find_spec``; None also for a module that code inserted without a spec."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    specs = (finder.find_spec(name, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in specs if spec is not None), None)
