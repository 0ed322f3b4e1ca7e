"""The system table of access: credentials, roles, ACLs and quotas; and what ACLs allow.

All of it is pure: no clock, no randomness, no token in plain text. Requests are checked in ``gateway.access``.
"""
