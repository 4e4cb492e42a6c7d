"""What every process runs on, and that knows nothing of crawling: streams, state, configuration, metrics, health."""
