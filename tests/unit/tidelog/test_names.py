"""``tidelog``: each of its names can be imported, and importing the package alone imports no part of it.

So Ctrl-C in the first moments of a program meets no long chain of imports, and a script pays for what it uses.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import tidelog


@pytest.mark.parametrize("name", tidelog.__all__)
def test_each_public_name_can_be_imported(name: str) -> None:
    """The table of modules and ``__all__`` can't drift apart."""
    assert getattr(tidelog, name) is not None
    assert name in dir(tidelog)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    """Python's own words, not a failing import."""
    with pytest.raises(AttributeError, match="no attribute 'Topics'"):
        _ = tidelog.Topics  # type: ignore[attr-defined]


def test_importing_the_package_alone_imports_no_part_of_it() -> None:
    """What takes long is imported with the name that needs it."""
    code = (
        "import sys, tidelog; print(sorted({'urllib3', 'msgspec', 'tidelog.admin', 'log_format'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
