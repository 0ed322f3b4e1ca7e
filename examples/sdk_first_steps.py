"""Create a topic, send some records, and read them back.

Start a gateway first (``tidelog serve --store ./log``), then ``python examples/sdk_first_steps.py``. ``TIDELOG_URL`` names a
gateway elsewhere.
"""

from __future__ import annotations

import json

from tidelog import Admin, Consumer, Producer, TidelogError


def main() -> None:
    """Create a topic, send records, and read them."""
    with Admin() as admin:
        topic = admin.create_topic("orders", partition_count=4, exist_ok=True)
        print(f"{topic.name} has {topic.partition_count} partitions and lies in {topic.table_uri}")

    # Values may be bytes or text, or anything that a serializer turns into one of these.
    with Producer(value_serializer=json.dumps) as producer:
        futures = [
            producer.send("orders", {"amount": amount}, key=f"user-{amount % 3}", headers={"source": "example"})
            for amount in range(10)
        ]
        for future in futures:
            try:
                stored = future.result()
            except TidelogError as error:
                print(f"not stored: {error.detail} (may have happened: {error.may_have_happened})")
            else:
                print(f"stored in partition {stored.partition} at offset {stored.offset}")

    # Records of one key are in one partition, in the order of sending.
    with Consumer("orders", consumer_timeout_ms=500) as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.key, record.value)


if __name__ == "__main__":
    main()
