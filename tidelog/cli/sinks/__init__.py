"""Where ``tidelog consume`` and ``tail`` put records: a terminal, files, and how far copying has come."""
