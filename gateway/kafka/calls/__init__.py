"""What each request of Kafka's protocol does: a module for each family. ``table`` has all that are served, with their versions.

A module here knows the engine's parts and ``gateway.kafka.call``, never ``routes``.
"""
