"""Copy from topic to topic exactly once: records read, records written and the group's offsets are one transaction.

``python examples/group_exactly_once.py one`` reads ``orders`` and writes ``invoices``. Start it several times with different
names: the processes share the partitions. Whichever process is killed, every order has one invoice. Ctrl-C ends it.
"""

from __future__ import annotations

import contextlib
import sys

from tidelog import Admin, Consumer, Producer
from tidelog.errors import StaleGeneration, TransactionNotOpen, UnknownMember


def main(name: str, session_timeout_ms: int = 45_000) -> None:
    """Write invoices until Ctrl-C."""
    with Admin() as admin:
        admin.create_topic("invoices", partition_count=4, exist_ok=True)
    with (
        Producer(transactional_id=f"invoices-{name}", transaction_timeout_ms=10_000) as producer,
        Consumer(
            "orders", group="invoices", enable_auto_commit=False, session_timeout_ms=session_timeout_ms
        ) as consumer,
        contextlib.suppress(KeyboardInterrupt),
    ):
        # Abort an open transaction of an earlier process of this name.
        producer.init_transactions()
        while True:
            records = consumer.poll(timeout_ms=1_000, max_records=25)
            if not records:
                continue
            try:
                with producer.transaction():
                    for record in records:
                        producer.send("invoices", b"invoice for " + record.value, key=record.key)
                    producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
            except (StaleGeneration, UnknownMember, TransactionNotOpen):
                # Another member owns the partitions now, or the transaction timed out: nothing of it is in the log.
                consumer.seek_to_committed()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
