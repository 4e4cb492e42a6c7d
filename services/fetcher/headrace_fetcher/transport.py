"""What all HTTP clients agree on, beyond httpx's own transport seam.

A request has `extensions["target"]`, the request target as bytes, sent exactly so: re-quoting a URL asks for another
page; and `extensions["origin"]`, the rest of its URL. A response has `extensions["fields"]`, its headers as they came,
and none besides (httpx's own would be read and listed again); `extensions["written"]`, a moment of the monotonic clock
at which its request was certainly on the wire (the earliest that is known); `extensions["connect"]`, the seconds its
connection took (0: kept, -1: unknown); and a raw stream, content encodings untouched. Whatever goes wrong is an
`AddressRefused` or a `TransportFault`.
"""

import ssl
from collections import OrderedDict

import httpx

from headrace_runtime.clock import Clock

KEEP_ALIVE = 30.0  # seconds an idle connection is kept: longer than the usual delay, shorter than most servers keep it


def new_ssl_context() -> ssl.SSLContext:
    """One for the process: loading the root certificates takes 35 ms. SSL_CERT_FILE and SSL_CERT_DIR are honoured."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Kept:
    """How many connections may be open between requests, at the most: each costs a file descriptor."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock, self._most = clock, most
        self._used: OrderedDict[str, float] = OrderedDict()  # origin → when last used

    def crowded(self, origin: str) -> bool:
        """Whether so many may be open already that this one should not stay. Else it is counted."""
        now, used = self._clock.monotonic(), self._used
        while used and next(iter(used.values())) < now - KEEP_ALIVE:
            used.popitem(last=False)
        if origin not in used and len(used) >= self._most:
            return True
        used[origin] = now
        used.move_to_end(origin)
        return False


def host_of(url: httpx.URL) -> str:
    """As it is in the URL. `url.host` decodes a name of another script, and fails on many that browsers open."""
    return url.raw_host.decode("ascii")


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def target_of(url: str) -> tuple[str, bytes]:
    """As-found URL → origin with its slash, and the request target."""
    end = url.index("/", url.index("//") + 2)
    return url[: end + 1], url[end:].encode("ascii")
