"""From an offset to the segment that holds it: flat columns, a few dozen bytes for each segment.

The manifest is part of a topic's state. It has no tags, times or producers; maintenance looks those up in the log.
"""
