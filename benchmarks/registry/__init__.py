"""The schema registry: its requests, and what a hundred thousand schemas take."""
