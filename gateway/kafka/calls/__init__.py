"""What each request of Kafka's protocol does: a module for each family. ``table`` lists all that are served, with their versions.

A module here imports the engine's parts and ``gateway.kafka.call``, never ``routes``.
"""
