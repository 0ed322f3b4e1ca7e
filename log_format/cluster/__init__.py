"""The identity that the gateways of one store share, and the ranking of gateways for a name.

Which gateways are alive is found out in ``gateway.cluster``.
"""
