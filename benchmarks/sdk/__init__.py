"""The SDK beside Kafka's clients."""
