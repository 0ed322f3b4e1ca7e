"""Forwarding of requests to the gateway that owns their topic, partition or group.

``forwarder``          which requests go where, and what a failure on the way means
``breaker``            which peers answer
``kept_body``          a request's body, kept for a second reading
``connections``        HTTP/1.1 connections to other gateways
``peer_answer``        what a peer's answer says
``forwarded_headers``  which headers cross between gateways

``cluster`` says which gateway is the owner. What a request does there is not known here.
"""
