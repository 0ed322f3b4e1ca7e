"""Every bound is a positive number that says why it is so, and the bounds fit each other."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from log_format import limits
from log_format.topic.config import SETTINGS, IntegerSetting

SOURCE = Path(limits.__file__)
NAMES = sorted(name for name in vars(limits) if name.isupper())


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_is_a_positive_integer(name: str) -> None:
    """Every limit is a positive ``int``."""
    value = getattr(limits, name)
    assert isinstance(value, int)
    assert value > 0


def test_every_limit_gives_its_reason() -> None:
    """Behind every limit stands a docstring with its unit and reason."""
    body = ast.parse(SOURCE.read_text()).body
    explained = {
        statement.target.id
        for statement, following in pairwise(body)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    }
    assert [name for name in NAMES if name not in explained] == []


def test_defaults_of_settings_keep_the_limits() -> None:
    """No topic begins its life with a setting that no client could give it."""
    for setting in SETTINGS.values():
        if isinstance(setting, IntegerSetting):
            assert setting.minimum <= setting.default <= setting.maximum


def test_sleepers_are_found_out_long_before_the_log_is_cleaned() -> None:
    """A head is distrusted, and a load given up, well before clean-up may delete what they were built on."""
    assert limits.HEAD_TRUSTED_MS * 10 <= limits.LOG_KEPT_MS_MIN
    assert limits.LOAD_MS_MAX * 2 <= limits.LOG_KEPT_MS_MIN
    assert limits.SEGMENT_AGE_MAX_MS * 10 <= limits.ORPHAN_GRACE_MS
