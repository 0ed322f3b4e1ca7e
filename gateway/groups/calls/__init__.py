"""Calls of the routes: groups joined, left, described and deleted, and the one call that commits, acknowledges and reads."""
