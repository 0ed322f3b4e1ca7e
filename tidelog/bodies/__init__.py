"""Records to bytes and back: JSON, NDJSON, Arrow and raw bodies, keys to partitions, fetched bytes to records.

No request is sent from here.
"""
