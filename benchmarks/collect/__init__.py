"""The agent that collects files: how fast it is, and that no line is lost under kills."""
