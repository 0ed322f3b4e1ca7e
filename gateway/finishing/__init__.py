"""Decided transactions brought to their end, by any gateway: what is staged, who applies it, what pends in groups meanwhile.

How a transaction comes to its decision is ``gateway.transactions``'s.
"""
