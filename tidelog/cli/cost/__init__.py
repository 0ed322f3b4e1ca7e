"""``tidelog cost``: monthly costs predicted from the gateways' counts of store requests."""
