"""Whether the packages that are imported here are the installed ones.

Python looks beside the user's own script first, and imports a file ``log_format.py`` there instead of ours (decision 019).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def check_log_format() -> None:
    """Raise ``ImportError`` when ``log_format`` is not the one beside ``tidelog``. To be called before that is imported."""
    try:
        spec = find_spec("log_format")
    except ValueError:  # a module without a spec was put there by code
        return
    if spec is None or spec.origin is None:
        return
    found, ours = Path(spec.origin), Path(__file__).parent.parent / "log_format"
    if found.parent in {ours, ours.resolve()} or found.resolve().parent == ours.resolve():
        return
    named = found.parent if found.name == "__init__.py" else found
    raise ImportError(
        f"{named} is imported in place of Tidelog's own package log_format: rename it",
        name="log_format",
        path=str(found),
    )
