"""What judges and measures the crawler. Not installed with it."""
