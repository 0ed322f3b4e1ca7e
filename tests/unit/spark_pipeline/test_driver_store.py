"""The driver's own store is opened with what Spark's processes have, and leaves nothing behind in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from log_format.stores.memory import MemoryStore
from spark_pipeline import driver_store as module
from spark_pipeline.driver_store import driver_store
from spark_pipeline.store_access import cached_store


def spark_with(settings: dict[str, str], java: dict[str, str]) -> Any:
    """As much of a session as is asked."""
    configuration = SimpleNamespace(hadoopConfiguration=lambda: SimpleNamespace(get=settings.get))
    return SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=configuration, _jvm=SimpleNamespace(System=SimpleNamespace(getenv=java.get)))
    )


def test_settings_win_over_this_process_and_this_process_over_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for Spark's Python processes; afterwards the environment is as it was, and the store is opened once."""
    seen: list[tuple[str, dict[str, str]]] = []

    def opening(uri: str, **_: bool) -> MemoryStore:
        seen.append((uri, {name: value for name, value in os.environ.items() if name.startswith("AWS_")}))
        return MemoryStore()

    monkeypatch.setattr(module, "open_store", opening)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "here")
    monkeypatch.setenv("AWS_REGION", "here")
    java = {"AWS_ACCESS_KEY_ID": "java", "AWS_SECRET_ACCESS_KEY": "java", "AWS_REGION": "java"}
    spark = spark_with({"fs.s3a.access.key": "setting"}, java)
    before = dict(os.environ)
    module._open.cache_clear()
    first = driver_store(spark, "s3a://bucket/prefix")
    assert dict(os.environ) == before
    assert driver_store(spark, "s3://bucket/prefix") is first
    expected = {"AWS_ACCESS_KEY_ID": "setting", "AWS_SECRET_ACCESS_KEY": "java", "AWS_REGION": "here"}
    assert seen == [("s3://bucket/prefix", expected)]
    module._open.cache_clear()


def test_a_directory_that_is_not_there_is_no_empty_store(tmp_path: Path) -> None:
    """A misspelt store is refused by the driver and by Spark's Python processes, and not made."""
    missing = str(tmp_path / "lgo")
    looks: tuple[Callable[[], object], ...] = (
        lambda: driver_store(spark_with({}, {}), missing),
        lambda: cached_store(missing),
    )
    for look in looks:
        with pytest.raises(ValueError, match="there is no store"):
            look()
    assert list(tmp_path.iterdir()) == []
