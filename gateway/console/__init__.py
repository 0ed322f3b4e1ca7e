"""The console, a browser's page at ``/``: its setting, and its static files with the headers that are sent with them.

The files use ``/v1`` as any client does; nothing here serves topics or groups. How a page is written is in ``README.md``.
"""
