"""What this gateway did in the last hour, and what of it is amiss: made of its metrics, for an operator to look at.

Only numbers that the metrics have are used here; a monitoring system that scrapes them keeps them longer and for all gateways.
"""
