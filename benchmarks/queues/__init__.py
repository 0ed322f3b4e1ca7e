"""Queues: receive and settle in batches and one by one, many that rest, and RabbitMQ beside them."""
