"""Directory for the ``PYTHONPATH`` of Spark's Python processes (set by ``registration``), with code that they run as they
start.

No code imports its ``sitecustomize``: Python does, by that name, before a program's first line.
"""
