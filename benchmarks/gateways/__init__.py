"""What gateways cost by themselves: their start, memory, codec and requests to the store; several workers and zones."""
