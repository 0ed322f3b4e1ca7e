"""Activity of this gateway in the last hour, and alarms: both made of its metrics, for an operator to look at.

Only numbers that the metrics have are used here; a monitoring system that scrapes them keeps them longer and for all gateways.
"""
