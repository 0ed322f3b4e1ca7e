"""``python -m benchmarks topics``: many small topics on few gateways.

``topics.py`` runs the cases; a case is a module with ``measure``. ``open_loop`` sends, ``site`` starts processes, ``relay``
counts what gateways tell each other. ``schedule``, ``answers`` and ``trace`` compute.
"""
