"""Records out of one gateway: by one client, and by readers of history beside small traffic."""
