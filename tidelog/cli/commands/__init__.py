"""One file for each command of ``tidelog``: its options and help text, and what it does with them.

Commands do not import each other; what two of them need is in ``terminal``, ``sources`` or ``sinks``.
"""
