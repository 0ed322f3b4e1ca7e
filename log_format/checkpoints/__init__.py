"""Reconciled logs: what a checkpoint holds, how one is written, and how a topic's state is loaded from one.

The Parquet schema of checkpoints is Delta's and so in ``delta``; here is what Tidelog reads out of it.
"""
