"""What the gateways of one store share: the cluster's identity, and the ranking of gateways for a name.

Which gateways are alive is found out in ``gateway.cluster``.
"""
