"""Reconciled logs: what a checkpoint has, how it is written, and how the state of a topic or journal is loaded from it.

The Parquet schema of checkpoints is Delta's, and is in ``delta``. This package interprets the rows for Tidelog.
"""
