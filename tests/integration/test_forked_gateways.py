"""A gateway that tests fork is to its test what the program is: output, errors, status, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked import GATEWAY, Forked, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="gateways are programs elsewhere")


def test_a_refused_setting_ends_both_alike(tmp_path: Path) -> None:
    """The same words, the same status."""
    arguments = ("--store", str(tmp_path / "store"), "--flush-ms", "never")
    environment = {**os.environ, "TIDELOG_PORT": "0"}
    program = subprocess.run([*GATEWAY, *arguments], env=environment, capture_output=True, timeout=60, check=False)
    with (tmp_path / "log").open("w+b") as log:
        forked = start([*GATEWAY, *arguments], environment, log)
        assert isinstance(forked, Forked)
        assert forked.wait(60) == forked.poll() == program.returncode == 2
        assert forked.stdout is not None
        with forked.stdout as output:
            assert output.read() == program.stdout
        log.seek(0)
        assert log.read() == program.stderr != b""


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_a_signal_ends_it(tmp_path: Path, sent: signal.Signals, status: int) -> None:
    """Its environment is its own, and its status is told; before that a wait is in vain."""
    environment = {**os.environ, "TIDELOG_PORT": "0", "TIDELOG_STORE": str(tmp_path / "store")}
    with (tmp_path / "log").open("wb") as log:
        forked = start(GATEWAY, environment, log)
    assert forked.stdout is not None
    with forked.stdout as output:
        assert str(tmp_path / "store") in output.readline().decode()
        with pytest.raises(subprocess.TimeoutExpired):
            forked.wait(0.01)
        assert forked.poll() is None
        forked.send_signal(sent)
        assert forked.wait(60) == status
