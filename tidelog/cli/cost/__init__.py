"""``tidelog cost``: what gateways' own counts of requests to the store come to in a month."""
