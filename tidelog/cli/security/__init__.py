"""Checks of ``tidelog doctor --security``: a gateway from outside, a gateway's settings, and its store.

Each check ends in a ``Finding``. Nothing here changes anything, and no finding contains a secret.
"""
