"""Records as one Parquet object, a run for each partition, and back: encoding, the footer, reading by ranges.

A segment knows nothing of the log that names it. What the log says of it (``SegmentRef``, ``Run``) is handed in as a value.
"""
