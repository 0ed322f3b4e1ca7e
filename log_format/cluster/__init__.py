"""What the gateways of one store share: the cluster's identity, and the ranking of gateways for a name.

The gateway finds out which gateways are alive (``gateway.cluster``).
"""
