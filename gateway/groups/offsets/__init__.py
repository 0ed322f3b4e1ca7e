"""Committed offsets: written under the rules of groups, read as the log has them, moved, and how far behind they are."""
