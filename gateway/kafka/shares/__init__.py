"""Kafka's share groups on queues: their members, their clients' sessions, and the queue wherever it is coordinated.

What a client sends and is sent is not known here (``gateway.kafka.calls``).
"""
