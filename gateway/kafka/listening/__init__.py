"""The address that Kafka's clients reach: who gets a connection, and what a connection reads, has answered and sends.

What a request does is not known here (``gateway.kafka.calls``).
"""
