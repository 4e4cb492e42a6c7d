"""`make bench-flat`: one long crawl, and whether a page of its end costs what a page of its beginning did."""
