"""Inspecting a store from outside: verifying every record against the log, and diagnosing a store.

Nothing here changes a topic, and no other package of the format imports this one.
"""
