"""The first answers that threads decode at the same time."""

from __future__ import annotations

import subprocess
import sys

FIRST_DECODES = """
import threading, time
import msgspec
from tidelog.http.decoders import decode

class Learned:
    def __getattr__(self, name):
        time.sleep(0.05)  # while msgspec learns the class other threads go on
        return int

LEARNED = Learned()

class Inner(msgspec.Struct):
    number: "LEARNED.number"

class Outer(msgspec.Struct):
    inner: Inner

found = []
threads = [threading.Thread(target=lambda: found.append(decode(b'{"inner":{"number":7}}', Outer))) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert found == [Outer(Inner(7))] * 8, found
"""


def test_threads_that_decode_a_class_for_the_first_time_wait_for_each_other() -> None:
    """msgspec shows other threads a class that it has not learned whole: a producer's sending threads ended their process."""
    ended = subprocess.run([sys.executable, "-c", FIRST_DECODES], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr.decode())
