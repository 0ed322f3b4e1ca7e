"""Several gateways on one store: who is alive, who is preferred for a topic, and passing requests on to that one.

Nothing here is needed for correctness: what it believes may be old or wrong, and costs only conflicts at the commit.

``keys``        how gateways of one store know each other's heartbeats
``heartbeat``   the object by which a gateway says that it is there
``heartbeat_reader``  reads those of the others, bounded whatever lies there
``crossing``    which headers cross between gateways
``liveness``    who is alive, by changes seen with one's own clock
``membership``  writes and reads heartbeats, beside the event loop
``peer``        HTTP/1.1 connections to other gateways
``forwarding``  which requests go where, and what a failure on the way means
"""
