"""A seed is a history: the same one again, also in another process with other hashes, so that a failure can be replayed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from tests.simulation.simulated.seeds import digest
from tests.simulation.simulated.world import History

ROOT = Path(__file__).parents[2]
SEEDS = {
    "simulated.log_world.simulate": 17,
    "simulated_calls.world.simulate_calls": 3,
    "simulated_delays.world.simulate_delays": 3,
    "simulated_groups.world.simulate_groups": 3,
    "simulated_journals.world.simulate_journals": 3,
    "simulated_kafka.world.simulate_kafka": 5,
    "simulated_modes.world.simulate_modes": 17,
    "simulated_queues.world.simulate_queues": 3,
    "simulated_service.world.simulate_service": 17,
    "simulated_typed.world.simulate_typed": 5,
}


def _history(simulation: str, seed: int) -> History:
    """The history of a seed in one of the simulations."""
    module, _, name = simulation.rpartition(".")
    history: History = getattr(import_module(f"tests.simulation.{module}"), name)(seed)
    return history


def test_a_seed_is_a_history() -> None:
    """It gives the same trace elsewhere and here, behind another history, byte for byte; that one differs."""
    lines = [
        "import logging",
        "from tests.simulation.simulated.seeds import digest",
        "logging.disable(logging.CRITICAL)",
    ]
    for simulation, seed in SEEDS.items():
        module, _, name = simulation.rpartition(".")
        lines += [f"from tests.simulation.{module} import {name}", f"print('{simulation}', digest({name}({seed})))"]
    other = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": "12345"}, capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    elsewhere = dict(line.split() for line in other.stdout.splitlines())
    another = {simulation: digest(_history(simulation, seed + 1)) for simulation, seed in SEEDS.items()}
    here = {simulation: digest(_history(simulation, seed)) for simulation, seed in SEEDS.items()}
    assert here == elsewhere
    assert [name for name in here if here[name] == another[name]] == []
