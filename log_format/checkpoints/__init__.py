"""Reconciled logs: what a checkpoint holds, how it is written, and how a topic's state is loaded from it.

The Parquet schema of checkpoints is Delta's, and so is in ``delta``. Here is what Tidelog reads out of it.
"""
