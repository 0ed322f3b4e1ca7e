"""Kafka's share groups on queues: their members, their clients' sessions, and the queue, wherever it is coordinated.

The format of requests and answers is not known here (``gateway.kafka.calls``).
"""
