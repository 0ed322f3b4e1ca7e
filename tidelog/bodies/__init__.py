"""Encoding and decoding of records: JSON, NDJSON and Arrow bodies, partitioning by key, fetched bytes to records.

No request is sent from here.
"""
