"""Consumer groups: rebalances, commits, a thousand members, ten thousand groups."""
