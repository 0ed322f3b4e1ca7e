"""Encoding and decoding of Kafka's protocol: frames, headers, messages, record batches, codecs.

Nothing here knows topics or the meaning of requests. Any bytes are decoded, or raise ``Malformed``.
"""
