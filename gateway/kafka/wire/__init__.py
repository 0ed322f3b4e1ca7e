"""Bytes of Kafka's protocol to values and back: frames, headers, messages, record batches, codecs.

Nothing here knows a topic or what a request means. Any bytes are read, or raise ``Malformed``.
"""
