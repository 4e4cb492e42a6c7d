"""What travels between the services: messages, topics, their encoding, URLs, settings. No I/O, no state."""
