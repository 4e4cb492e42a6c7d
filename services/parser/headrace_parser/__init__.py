"""Reads pages: bytes in, text, facts and links out. The parsing itself runs in processes that may be killed."""
