"""From an offset to the segment with it: flat columns, a few dozen bytes for each segment.

The manifest is part of a topic's state. It has no tags, times or producers; maintenance reads those from the log.
"""
