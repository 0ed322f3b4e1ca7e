"""Groups as their coordinator has them: claimed, their members' sessions, and the one way to a group's next row.

How partitions are assigned is ``assignment``'s; offsets are not known here.
"""
