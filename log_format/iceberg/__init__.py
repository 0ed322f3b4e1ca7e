"""A topic's table as Iceberg's readers see it: schema, manifests and metadata over the same Parquet files (decision 116).

Nothing here is needed by Tidelog itself: the log is the truth, and what is written below ``topics/<topic>/_iceberg/`` can be
deleted at any time. Delta's log is read here, and never written. What the HTTP catalog answers is in ``gateway.iceberg``.
"""
