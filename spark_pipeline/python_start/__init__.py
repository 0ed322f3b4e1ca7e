"""A directory for the ``PYTHONPATH`` of Spark's Python processes (``registration`` puts it there): what they run as they start.

No code imports its ``sitecustomize``: Python does, by that name, before a program's first line.
"""
