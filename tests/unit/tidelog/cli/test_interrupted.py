"""Ctrl-C at any moment of a command has its documented code."""

from __future__ import annotations

import importlib.metadata

import pytest
from typer.testing import CliRunner

from tidelog.cli.app import app


def test_ctrl_c_outside_of_what_is_reported_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the command itself does not expect it: before it begins its work, or behind it."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.metadata, "version", interrupted)
    assert CliRunner().invoke(app, ["version"]).exit_code == 130
