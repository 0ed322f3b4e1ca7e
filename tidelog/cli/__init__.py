"""The command line: one file per group of commands, put together in ``app``; ``tidelog/__main__.py`` begins it.

Commands reach gateways by the SDK alone. Two exceptions: ``verify`` and ``doctor`` read the store itself, and ``serve``,
``maintain``, ``pipeline`` and ``demo`` start the other programs as processes.
"""
