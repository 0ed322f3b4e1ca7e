"""The listener for Kafka's own clients: their protocol on the same engine as HTTP's (docs/decisions/047-kafka-listener.md).

========================  ==================================================================================
``listening/``            the address (``kafka_listen``); a connection: frames in, handlers called in order, answers out
``call``                  what a handler works with: ``KafkaCall``; ``ApiHandler``, ``PendingAnswer``, ``Encoded``
``calls/``                a module for each family of requests; ``calls.table`` lists every request that is served
``brokers``               the gateways as brokers: node ids, addresses
``described_topics``      a topic's entry in a Metadata answer; cache of encoded entries
``known_topics``          topics by their ids
``errors``                Tidelog's errors as Kafka's codes
``wire/``                 bytes to values and back; knows nothing of topics
========================  ==================================================================================

A handler is written once for all versions::

    async def describe_cluster(call: KafkaCall, request: Any) -> Answer:
        call.require("Describe", "cluster", CLUSTER)
        return call.answer(error_code=KafkaError.none, cluster_id="…", brokers=[{"broker_id": 1, "host": "h", "port": 9092}])

    CALLS = {60: ApiHandler(0, 2, cluster.describe_cluster)}  # in ``calls.table``

1. ``request`` is kio's entity of the request's version. A field that only some versions have is read by ``getattr(…, default)``.
2. ``call.answer`` takes the field names of kio's newest version, nested entities as mappings, and milliseconds as integers. A
   field that the request's version lacks is left out. ``throttle_time`` defaults to the caller's quota debt. A name that no
   version has raises ``TypeError``.
3. A handler puts refusals into the answer: ``except TidelogError as error: kafka_error(error)``. An exception that a handler
   raises closes the connection.
4. A handler that has to wait (a long poll, a commit) returns ``PendingAnswer(awaitable)`` as soon as the order of requests no
   longer matters. The connection's next request then begins immediately. Answers still go out in the order of requests. A handler
   wrapped by ``answer_concurrently`` returns ``PendingAnswer`` immediately.
5. Reserve the memory of a large answer with ``call.answer_memory`` and append the reservation to ``call.reservations``: it
   is released once the answer is sent.
6. ``None`` means that no answer is sent (Produce with acks=0). ``Encoded`` is an answer body that is already encoded.
7. ``call.session`` lives as long as the connection. ``session.caller`` is None until the client has authenticated: until then
   only the keys of ``UNAUTHENTICATED_KEYS`` are served.

This package and ``routes`` do not import each other.
"""
