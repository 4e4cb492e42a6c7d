"""`make bench-robots`: parsers of robots.txt side by side, on cases of our own and on real files."""
