"""How every command speaks: console, exit codes, errors as sentences, help texts, settings file, interruption."""
