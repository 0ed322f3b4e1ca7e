"""What a gateway's listeners need to know of a connection.

``hosts``             names by which a gateway may be addressed
``client_addresses``  counts of connections by client address
``certificate``       TLS contexts, made of files that may change

Sockets and protocols are in ``gateway.process`` and ``gateway.kafka.listening``.
"""
