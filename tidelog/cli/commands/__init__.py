"""One file for each command of ``tidelog``: its options, help text and action.

Commands do not import each other; what two of them need is in ``terminal``, ``sources`` or ``sinks``.
"""
