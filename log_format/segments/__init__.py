"""Records <-> one Parquet object with a run for each partition: encoding, the footer, reading by ranges.

A segment does not depend on the log that names it. What the log says about it (``SegmentRef``, ``Run``) is passed in as values.
"""
