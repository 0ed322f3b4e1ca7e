"""The state of one topic at one version of its log, and every change that can be proposed to it.

All of it is pure: state and time in, actions out. Reading the log is in ``checkpoints`` and ``delta``, committing in ``delta``.
"""
