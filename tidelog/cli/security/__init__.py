"""What ``tidelog doctor --security`` looks at: a gateway from outside, the settings of one, and its store.

Each check ends in a ``Finding``. Nothing here changes anything, and no finding holds a secret.
"""
