"""A publisher and a consumer of RabbitMQ, each for a process of its own, by pika."""

from __future__ import annotations

import time
from typing import Any

import pika

QUEUE = "work"
UNCONFIRMED_MAX = 1_000
IDLE_S = 2.0
"""After so long without a message the queue is empty."""


def publish(port: int, count: int, value: bytes) -> int:
    """Publish so many persistent messages to a quorum queue; how many were confirmed."""
    sent = confirmed = 0

    def opened(channel: Any) -> None:
        channel.confirm_delivery(ack_nack_callback=lambda frame: told(channel, frame.method))
        arguments = {"x-queue-type": "quorum"}
        channel.queue_declare(QUEUE, durable=True, arguments=arguments, callback=lambda _frame: more(channel))

    def more(channel: Any) -> None:
        nonlocal sent
        while sent < count and sent - confirmed < UNCONFIRMED_MAX:
            channel.basic_publish("", QUEUE, value, pika.BasicProperties(delivery_mode=2))
            sent += 1

    def told(channel: Any, method: Any) -> None:
        nonlocal confirmed
        assert isinstance(method, pika.spec.Basic.Ack), method
        confirmed = method.delivery_tag if method.multiple else confirmed + 1
        if confirmed >= count:
            connection.close()
        elif sent - confirmed < UNCONFIRMED_MAX // 2:
            more(channel)

    connection = pika.SelectConnection(
        pika.ConnectionParameters("127.0.0.1", port),
        on_open_callback=lambda made: made.channel(on_open_callback=opened),
        on_close_callback=lambda made, _reason: made.ioloop.stop(),
    )
    connection.ioloop.start()
    return confirmed


def consume(port: int, batch: int, seconds: float) -> tuple[int, float, float]:
    """Take messages and acknowledge each batch at once: how many, the seconds, and this process's CPU seconds."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=4 * batch)
    began, before = time.perf_counter(), time.process_time()
    last, count = began, 0
    for method, _, _ in channel.consume(QUEUE, inactivity_timeout=IDLE_S):
        if method is None:
            break
        count += 1
        last = time.perf_counter()
        if count % batch == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if last - began > seconds:
            break
    cpu_s = time.process_time() - before
    connection.close()
    return count, last - began, cpu_s
