"""Common behaviour of all commands: console, exit codes, error messages, help texts, settings file, interruption."""
