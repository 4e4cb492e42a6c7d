"""`make bench-frontier`: what a link, a release and a restart cost, on the real handler and the real embedded state."""
