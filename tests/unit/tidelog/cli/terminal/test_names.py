"""Shells complete the names of topics and groups, and never wait long, nor hear of what went wrong."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.support.fake_gateway import FakeGateway
from tidelog import Admin
from tidelog.cli.app import app
from tidelog.cli.terminal.names import complete_groups, complete_settings, complete_topics


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, capsys: pytest.CaptureFixture[str]) -> Any:
    """What bash is told for a line that ends where the cursor is."""
    for name in ("orders", "orders.dead", "clicks"):
        gateway.create(name)
    monkeypatch.setenv("TIDELOG_URL", gateway.url)
    from typer._completion_classes import completion_init

    completion_init()

    def complete(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_TIDELOG_COMPLETE", "complete_bash")
        with pytest.raises(SystemExit):
            app(prog_name="tidelog", args=[])
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out.split()

    return complete


def test_topics_are_completed_where_they_are_named(shell: Any) -> None:
    """By what is there; a topic that the line names already is not offered again, and a new one can't be known."""
    assert shell("tidelog consume ord") == ["orders", "orders.dead"]
    assert shell("tidelog topic describe cl") == ["clicks"]
    assert shell("tidelog tail orders o") == ["orders.dead"]
    assert shell("tidelog collect a.log --topic cl") == ["clicks"]
    assert shell("tidelog topic create ord") == []


def test_groups_are_completed(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As topics are."""
    monkeypatch.setattr(Admin, "list_groups", lambda _: [SimpleNamespace(group=name) for name in ("billing", "other")])
    assert shell("tidelog lag bil") == ["billing"]
    assert shell("tidelog consume orders --group b") == ["billing"]


@pytest.mark.parametrize("complete", [complete_topics, complete_groups])
def test_without_a_gateway_there_are_no_names(
    monkeypatch: pytest.MonkeyPatch, dead_url: str, capfd: pytest.CaptureFixture[str], complete: Any
) -> None:
    """Soon, and without a word; so it is with settings that can't be."""
    context = typer.Context(typer.main.get_command(app))
    for url in (dead_url, "no://url"):
        monkeypatch.setenv("TIDELOG_URL", url)
        began = time.monotonic()
        assert complete(context, "o") == []
        assert time.monotonic() - began < 5
    monkeypatch.delenv("TIDELOG_URL")
    monkeypatch.setenv("TIDELOG_CONFIG", os.devnull)
    assert capfd.readouterr() == ("", "")


def test_settings_of_topics_and_their_values(shell: Any) -> None:
    """Without asking a gateway: names as far as the sign, and the values of a setting that has few."""
    assert shell("tidelog topic create t -c compr") == ["compression.type="]
    assert set(shell("tidelog topic alter orders --reset-config flush.")) == {"flush.ms", "flush.bytes"}
    assert complete_settings("cleanup.policy=c") == ["cleanup.policy=compact", "cleanup.policy=compact,delete"]
    assert complete_settings("flush.ms=1") == []
