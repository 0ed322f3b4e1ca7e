"""A seed is a history: the same one again, also in another process with other hashes, so that a failure can be replayed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.simulation.simulated.log_world import simulate
from tests.simulation.simulated.seeds import digest
from tests.simulation.simulated.world import History
from tests.simulation.simulated_calls.world import simulate_calls
from tests.simulation.simulated_delays.world import simulate_delays
from tests.simulation.simulated_groups.world import simulate_groups
from tests.simulation.simulated_journals.world import simulate_journals
from tests.simulation.simulated_kafka.world import simulate_kafka
from tests.simulation.simulated_modes.world import simulate_modes
from tests.simulation.simulated_queues.world import simulate_queues
from tests.simulation.simulated_service.world import simulate_service

ROOT = Path(__file__).parents[2]
SEEDS: dict[Callable[[int], History], int] = {
    simulate: 17,
    simulate_calls: 3,
    simulate_delays: 3,
    simulate_groups: 3,
    simulate_journals: 3,
    simulate_kafka: 5,
    simulate_modes: 17,
    simulate_queues: 3,
    simulate_service: 17,
}


def test_a_seed_is_a_history() -> None:
    """It gives the same trace elsewhere and here, behind another history, byte for byte; that one differs."""
    lines = [
        "import logging",
        "from tests.simulation.simulated.seeds import digest",
        "logging.disable(logging.CRITICAL)",
    ]
    for simulation, seed in SEEDS.items():
        lines += [
            f"from {simulation.__module__} import {simulation.__name__}",
            f"print('{simulation.__name__}', digest({simulation.__name__}({seed})))",
        ]
    other = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "12345"}, capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    elsewhere = dict(line.split() for line in other.stdout.splitlines())
    another = {simulation.__name__: digest(simulation(seed + 1)) for simulation, seed in SEEDS.items()}
    here = {simulation.__name__: digest(simulation(seed)) for simulation, seed in SEEDS.items()}
    assert here == elsewhere
    assert [name for name in here if here[name] == another[name]] == []
