"""A consumer in a forked child: it shares the parent's connections, so it must not be used there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.fake_gateway import FakeGateway

CHILD = """
import os, sys
from tidelog import Consumer
consumer = Consumer("t", bootstrap_servers=sys.argv[1])
consumer.poll(0)
child = os.fork()
if child == 0:
    try:
        consumer.poll(0)
    except RuntimeError as error:
        os._exit(7 if "fork" in str(error) else 8)
    os._exit(9)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
consumer.poll(0)
consumer.close()
sys.exit(code)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system does not fork")
def test_a_forked_child_is_refused_and_the_parent_goes_on(gateway: FakeGateway) -> None:
    """The child's first poll raises ``RuntimeError`` that says why; the parent's consumer works as before."""
    gateway.create("t")
    ended = subprocess.run([sys.executable, "-c", CHILD, gateway.url], timeout=60, check=False)
    assert ended.returncode == 7
