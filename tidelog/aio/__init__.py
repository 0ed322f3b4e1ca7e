"""``Producer``, ``Consumer``, ``QueueConsumer``, ``Admin`` for asyncio: names, arguments, promises of ``tidelog``, to be awaited.

::

    from tidelog.aio import Consumer, Producer

    async with Producer() as producer:
        stored = await (await producer.send("orders", "a value"))
    async with Consumer("orders") as consumer:
        async for record in consumer:
            print(record.offset)

They are a thin layer over the same classes, which wait for gateways in threads. Nothing here blocks the event loop. Each object
belongs to the loop that first uses it.
"""

from tidelog.aio.admin import Admin
from tidelog.aio.consumer import Consumer
from tidelog.aio.producer import Producer
from tidelog.aio.queue_consumer import QueueConsumer
from tidelog.aio.transaction_checker import TransactionChecker

__all__ = ["Admin", "Consumer", "Producer", "QueueConsumer", "TransactionChecker"]
