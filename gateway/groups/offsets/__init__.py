"""Committed offsets: committed under the rules of groups, read, reset, and their lag behind the log's end."""
