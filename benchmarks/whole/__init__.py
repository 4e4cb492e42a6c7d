"""`make bench`: whole crawls of the same web, ours and those of others, and what each of them cost."""
