"""What routes call: groups joined, left, described and deleted, and the one call that commits, acknowledges and reads."""
