"""What a caller holds in hand: records, topics, groups and their members, as frozen values.

No I/O and no encoding here; every other folder may use these.
"""
