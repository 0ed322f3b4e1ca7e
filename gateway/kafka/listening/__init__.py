"""The address that Kafka's clients reach: which clients get a connection; what it reads, has answered and sends.

What a request does is not known here (``gateway.kafka.calls``).
"""
