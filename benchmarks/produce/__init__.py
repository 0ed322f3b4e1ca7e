"""Records into one gateway: their rates and CPU, acknowledgements, single flushes and requests, delayed records."""
