"""The fixture of tests of maintenance: a topic that does not exist yet, and a job."""

from __future__ import annotations

import pytest

from tests.support.maintenance_bench import MaintenanceBench


@pytest.fixture
def bench() -> MaintenanceBench:
    """A topic that does not exist yet."""
    return MaintenanceBench()
