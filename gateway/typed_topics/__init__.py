"""Typed topics at the door: the readers of a topic's schemas, made of what the registry knows, and the check of records by them.

The registry's API does not belong here, nor how a value of a schema becomes a column (``log_format/schemas/columns``).
"""
