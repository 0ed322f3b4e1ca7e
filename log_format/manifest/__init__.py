"""From an offset to the segment that has it: flat columns, a few dozen bytes for each segment.

It is part of a topic's state and holds no tags, no times and no producers; maintenance looks those up in the log.
"""
