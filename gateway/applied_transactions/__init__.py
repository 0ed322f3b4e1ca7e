"""Finishing of decided transactions, in any gateway: staged objects, how they are applied, and what is pending in groups
meanwhile.

Decisions are made in ``gateway.transactions``.
"""
