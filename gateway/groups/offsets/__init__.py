"""Committed offsets: committed under the rules of groups, read, reset, and how far behind the log's end they are."""
