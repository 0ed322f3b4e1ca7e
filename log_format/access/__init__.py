"""The system table of access: credentials, roles, ACLs and quotas; and what ACLs allow.

Pure, as all of the format: no clock, no randomness, no token in plain text. What asks for rights is ``gateway.access``.
"""
