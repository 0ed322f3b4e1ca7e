"""The listener of Kafka's clients: admission of connections, and reading, answering and writing on each.

What a request does is not known here (``gateway.kafka.calls``).
"""
