"""The command line: one file per group of commands, assembled in ``app`` and started by ``tidelog/__main__.py``.

Commands reach gateways only through the SDK. Two exceptions: ``verify`` and ``doctor`` read the store itself, and ``serve``,
``maintain``, ``pipeline`` and ``demo`` start the other programs as processes.
"""
