"""asyncio versions of ``Producer``, ``Consumer``, ``QueueConsumer`` and ``Admin``, with the names, arguments and promises of
``tidelog``.

::

    from tidelog.aio import Consumer, Producer

    async with Producer() as producer:
        stored = await (await producer.send("orders", "a value"))
    async with Consumer("orders") as consumer:
        async for record in consumer:
            print(record.offset)

They are thin wrappers around the blocking classes, which wait for gateways in threads, so the event loop is never blocked. Each
object belongs to the event loop that first uses it.
"""

from tidelog.aio.admin import Admin
from tidelog.aio.consumer import Consumer
from tidelog.aio.producer import Producer
from tidelog.aio.queue_consumer import QueueConsumer
from tidelog.aio.transaction_checker import TransactionChecker

__all__ = ["Admin", "Consumer", "Producer", "QueueConsumer", "TransactionChecker"]
