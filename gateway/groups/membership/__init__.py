"""Groups as their coordinator has them: claims, members' sessions, and the one way to a group's next row.

``assignment`` assigns partitions; offsets are not known here.
"""
