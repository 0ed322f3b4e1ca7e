"""Delayed records: objects beside their topic, found by the minute in which they are due, and published once.

Nothing here knows gateways or transactions. What blocks says so.
"""
