"""Looking at a store from outside: every record checked against the log, and the troubles that a store can have.

Nothing here changes a store, and nothing else imports this.
"""
