"""The frontier: which URL is asked for next, and what became of every URL ever found."""
