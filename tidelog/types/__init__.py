"""Values that callers handle: records, topics, groups and their members, as frozen types.

No I/O and no encoding here; every other folder may import this one.
"""
