"""The tests. A regular package, so that no other package called ``tests`` is found before it.

Its folders are read from the repository's root, and import ``tests.support`` and their own packages, never each other.
"""
