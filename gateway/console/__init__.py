"""The console, a browser's page at ``/``: its setting, and its static files with what is sent along with them.

The files use ``/v1`` as any client does; nothing here answers for a topic or a group. How a page is written is in ``README.md``.
"""
