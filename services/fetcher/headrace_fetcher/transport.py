"""What both HTTP clients agree on, beyond httpx's own transport seam.

A request has `extensions["target"]`, the request target as bytes, sent exactly so: re-quoting a URL asks for another
page. A response has `extensions["began"]`, the moment of the monotonic clock at which its server can be taken to have
seen the request, and a raw stream, content encodings untouched. Whatever goes wrong is an `AddressRefused` or a
`TransportFault`.
"""

import ssl

import httpx

KEEP_ALIVE = 30.0  # seconds an idle connection is kept: longer than the usual delay, shorter than most servers keep it
ACCEPTING = 0.05  # seconds a busy server may take to notice a new connection; 40 ms were seen in a burst of them


def began_at(written: float, answered: float, *, fresh: bool) -> float:
    """What the host's delay counts from, given when the request was on the wire and when its answer began. On a kept
    connection the server sees it at once; a new one may lie waiting, and if the gap counted from before that, the
    next request, on the connection kept, would look too soon."""
    return min(answered, written + ACCEPTING) if fresh else written


def new_ssl_context() -> ssl.SSLContext:
    """One for the process: loading the root certificates takes 35 ms. SSL_CERT_FILE and SSL_CERT_DIR are honoured."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def target_of(url: str) -> tuple[str, bytes]:
    """As-found URL → origin with its slash, and the request target."""
    end = url.index("/", url.index("//") + 2)
    return url[: end + 1], url[end:].encode("ascii")
