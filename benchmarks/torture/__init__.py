"""Crawls whose processes and brokers are killed and paused at random, and a judge of what came of them."""
