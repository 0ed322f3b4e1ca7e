"""Topics that members subscribe to, by name or by pattern, as they are now."""
