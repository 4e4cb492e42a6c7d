"""A parse that does to its worker what the page's URL says; run in worker processes only."""

import ctypes
import mmap
import os
import signal
import sys
import time

from headrace_parser.page import Parsed, ParseLimits
from headrace_parser.page import parse as real_parse
from headrace_schemas.messages import FetchedPage
from headrace_schemas.urls import Canonicaliser


def parse(page: FetchedPage, body: bytes, limits: ParseLimits, canonicaliser: Canonicaliser) -> Parsed:
    deed = page.url.partition("?")[2].partition("=")
    match deed[0]:
        case "hang":
            time.sleep(600)
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "memory":
            hoard = [bytearray(64 * 1024 * 1024) for _ in range(1_000)]
            del hoard
        case "raise":
            raise ValueError("a bug")
        case "exit":
            sys.exit(0)
        case "close":
            os.closerange(3, 64)
            time.sleep(600)
        case "slow":
            time.sleep(float(deed[2]))
        case "once":  # dies only the first time: as if an operator had killed the worker
            if not os.path.exists(deed[2]):
                open(deed[2], "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
    return real_parse(page, body, limits, canonicaliser)


def grow(page: FetchedPage, body: bytes, limits: ParseLimits, canonicaliser: Canonicaliser) -> Parsed:
    """Forgets to forget: a little more address space with every page."""
    _kept.append(mmap.mmap(-1, 2 * 1024 * 1024))
    return real_parse(page, body, limits, canonicaliser)


_kept: list[mmap.mmap] = []
