"""The environment is another only as long as it is meant to be."""

from __future__ import annotations

import os

import pytest

from spark_pipeline.environment import set_variables


def test_what_was_there_comes_back_and_what_was_not_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when what it was changed for fails: a later session must not find what an earlier one was told."""
    monkeypatch.setenv("TIDELOG_TEST_OLD", "old")
    before = dict(os.environ)

    def fails() -> None:
        assert (os.environ["TIDELOG_TEST_OLD"], os.environ["TIDELOG_TEST_NEW"]) == ("new", "new")
        raise OSError("no Java")

    with pytest.raises(OSError, match="no Java"), set_variables({"TIDELOG_TEST_OLD": "new", "TIDELOG_TEST_NEW": "new"}):
        fails()
    assert dict(os.environ) == before
