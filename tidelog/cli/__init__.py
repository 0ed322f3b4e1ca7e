"""The command line: one file per group of commands, put together in ``app``.

Commands speak to a gateway by the SDK alone. Two exceptions: ``verify`` reads the store itself, and ``serve`` and ``demo``
start the other programs as processes.
"""

from tidelog.cli.app import main

__all__ = ["main"]
