"""Delayed records: put as objects of their own before the answer, and published when they are due (``log_format.scheduled``).

No HTTP is known here.
"""
