"""The listener for Kafka's own clients: their protocol on the same engine as HTTP's (docs/decisions/047-kafka-listener.md).

========================  ==================================================================================
``listening/``            the address (``kafka_listen``); a connection: frames in, handlers called in order, answers out
``call``                  what a handler has: ``KafkaCall``; ``Served``, ``Later``, ``Encoded``
``calls/``                a module for each family of requests; ``calls.table`` has all that are served
``brokers``               the gateways as brokers: node ids, addresses
``described_topics``      what Metadata tells of a topic: its leaders; bytes that are kept
``known_topics``          topics by their ids
``errors``                Tidelog's errors as Kafka's codes
``wire/``                 bytes to values and back; knows nothing of topics
========================  ==================================================================================

A handler is written once for all versions::

    async def describe_cluster(call: KafkaCall, request: Any) -> Answer:
        call.require("Describe", "cluster", CLUSTER)
        return call.answer(error_code=KafkaError.none, cluster_id="…", brokers=[{"broker_id": 1, "host": "h", "port": 9092}])

    CALLS = {60: Served(0, 2, cluster.describe_cluster)}  # in ``calls.table``

1. ``request`` is kio's entity of the request's version. A field that only some versions have is read by ``getattr(…, default)``.
2. ``call.answer`` takes the names of kio's newest version, nested entities as mappings, and milliseconds as integers. What the
   version lacks is left out. ``throttle_time`` is 0 unless given. A name that no version has raises ``TypeError``.
3. Refusals are in the answer: ``except TidelogError as error: kafka_error(error)``. What a handler raises closes the connection.
4. A handler that has to wait (a long poll, a commit) returns ``Later(awaitable)``, once the order of requests no longer matters.
   The next request of the connection begins meanwhile. Answers go out in the order of requests all the same. One that is marked
   ``later`` does so at once.
5. Memory that an answer takes is reserved (``call.answer_memory``) and appended to ``call.held``: it is released once it is sent.
6. ``None`` is no answer at all (Produce with acks=0). ``Encoded`` is a body whose bytes were made already.
7. ``call.session`` lasts as long as the connection. Its ``caller`` is None until the client has proved its identity: until
   then only the keys of ``UNAUTHENTICATED_KEYS`` are served.

Neither this package nor ``routes`` knows the other.
"""
