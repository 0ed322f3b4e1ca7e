"""The gateway that the SDK's clients talk to stands still, with what they sent in its hands: they go on at another one.

It comes back at the end, and does what it was sent: no record is there twice, and none is missing.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.live_gateways import know_each_other, owned_by
from tests.support.waiting import eventually
from tidelog import Consumer, Producer, RecordMetadata

GOES_ON_SECONDS_MAX = 5.0
"""An exchange may take 30 s."""


@pytest.fixture
def two(tmp_path: Path, start_gateway: StartGateway) -> list[GatewayProcess]:
    """The first is the one that will stand still."""
    gateways = [start_gateway(str(tmp_path / "store")) for _ in range(2)]
    assert know_each_other(gateways)
    return gateways


class Sending:
    """A producer whose records are sent one after another, without pause."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.sent: list[tuple[float, Future[RecordMetadata]]] = []
        self.acknowledged_at: list[float] = []
        self._producer, self._topic = producer, topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.01):
            future = self._producer.send(self._topic, f"value-{len(self.sent)}")
            future.add_done_callback(lambda _: self.acknowledged_at.append(time.monotonic()))
            self.sent.append((time.monotonic(), future))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def longest_pause_s(self, since: float) -> float:
        """Between two acknowledgements, the first of which may be from before ``since``."""
        moments = [since, *(moment for moment in sorted(self.acknowledged_at) if moment > since)]
        return max(after - before for before, after in itertools.pairwise(moments))


@pytest.mark.parametrize("in_group", [False, True])
def test_an_idempotent_producer_and_a_consumer_go_on(two: list[GatewayProcess], in_group: bool) -> None:
    """Both go straight to the topic's gateway, which is also the group's, and it freezes."""
    frozen, other = two
    topic = owned_by(frozen)
    group = owned_by(frozen, "groups/") if in_group else None
    frozen.topic(topic, 1, flush_ms=20)
    read: list[str] = []
    read_at: list[float] = []
    urls = [frozen.url, other.url]
    stopping = threading.Event()

    def consume() -> None:
        with Consumer(topic, bootstrap_servers=urls, group=group, auto_offset_reset="earliest") as consumer:
            while not stopping.is_set():
                for record in consumer.poll(500):
                    assert record.value is not None
                    read.append(record.value.decode())
                    read_at.append(time.monotonic())

    reader = threading.Thread(target=consume)
    with Producer(urls, linger_ms=0) as producer:
        sending = Sending(producer, topic)
        reader.start()
        try:
            assert eventually(lambda: len(sending.acknowledged_at) > 50 and len(read) > 50)
            frozen.process.send_signal(signal.SIGSTOP)
            moment = time.monotonic()
            assert eventually(lambda: len([at for at in read_at if at > moment + GOES_ON_SECONDS_MAX]) > 50, 60)
        finally:
            frozen.process.send_signal(signal.SIGCONT)
            sending.stop()
            stopping.set()
            reader.join()
        assert all(future.exception(60) is None for _, future in sending.sent)
    moments = [moment, *(at for at in read_at if at > moment)]
    longest_read_s = max(after - before for before, after in itertools.pairwise(moments))
    longest_sent_s = sending.longest_pause_s(moment)
    print(f"seconds without an acknowledgement {longest_sent_s:.2f}, without a record {longest_read_s:.2f}")
    assert longest_sent_s <= GOES_ON_SECONDS_MAX
    assert longest_read_s <= GOES_ON_SECONDS_MAX
    assert know_each_other(two)
    values = [value for _, value in other.read(topic)]
    assert values == [f"value-{number}" for number in range(len(sending.sent))]
