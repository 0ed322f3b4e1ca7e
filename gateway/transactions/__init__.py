"""Transactions: begun, staged, decided, applied; finished by any gateway when the one that decided is gone."""
