"""How fast clients go that wait for each answer, or have little under way, and for how much; beside Apache Kafka."""
