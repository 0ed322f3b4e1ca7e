"""The fixture of tests of the agent: one with the directory ``logs`` of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.collect_bench import Workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)
