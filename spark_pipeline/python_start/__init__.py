"""A directory for the ``PYTHONPATH`` of Spark's Python processes (``registration`` puts it there): what they run as they start.

Its ``sitecustomize`` is nobody's to import: Python does, by that name, before a program's first line.
"""
