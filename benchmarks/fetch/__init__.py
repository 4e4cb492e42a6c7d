"""`make bench-fetch`: what a page costs the fetcher, beside Scrapy's downloader on the same pages."""
