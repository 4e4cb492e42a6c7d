"""A real Apache Kafka on loopback, without Docker: Java runs it, Maven fetches it, nothing is installed."""
