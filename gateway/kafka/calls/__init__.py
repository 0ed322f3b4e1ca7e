"""The handlers of Kafka's requests: a module for each family. ``table`` lists all that are served, with their versions.

A module here imports the engine's parts and ``gateway.kafka.call``, never ``routes``.
"""
