"""Finishes decided transactions, in any gateway: what is staged, how it is applied, what is pending in groups meanwhile.

Decisions are made in ``gateway.transactions``.
"""
