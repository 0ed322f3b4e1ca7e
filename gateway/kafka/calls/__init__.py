"""What each request of Kafka's protocol does: a module for each family, with its ``CALLS``; ``table`` joins them.

A module here knows the engine's parts and ``gateway.kafka.call``, never ``routes``.
"""
