"""Transactions: begun, staged, decided, applied. Any gateway finishes what another one decided.

No HTTP is known here.
"""
