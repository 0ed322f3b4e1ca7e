"""Maintenance of topics' tables by PySpark jobs: small segments into large ones, retention, key compaction, orphans.

Not built yet. It will meet the gateways as bytes in the bucket only, and every commit that it makes goes through
``log_format.committer``.
"""
