"""Several gateways on one store: which are alive, and which owns what.

Correctness needs none of this: a view that is old or wrong only costs conflicts at the commit.

``keys``        keys by which gateways of one store know each other's heartbeats
``heartbeat``   the object by which a gateway shows that it is alive
``heartbeat_reader``  reads the heartbeats of the other gateways, within bounds
``liveness``    which gateways are alive, by the changes that this one sees
``peers``       the other gateways, as this one sees them
``membership``  writes and reads heartbeats, off the event loop, and renews that view
``ownership``   which gateway is preferred for what

No request and no topic's state is known here.
"""
