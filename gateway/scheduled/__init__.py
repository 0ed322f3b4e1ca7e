"""Delayed records: put beside their topic before the answer, and published when they are due (``log_format.scheduled``).

No HTTP is known here.
"""
