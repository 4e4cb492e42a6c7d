"""A web to crawl: many deterministic sites on loopback addresses, whose log and model judge a crawler."""
