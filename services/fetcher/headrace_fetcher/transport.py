"""What both HTTP clients agree on, beyond httpx's own transport seam.

A request has `extensions["target"]`, the request target as bytes, sent exactly so: re-quoting a URL asks for another
page. A response has `extensions["written"]`, the moment of the monotonic clock at which its request was on the wire,
and a raw stream, content encodings untouched. Whatever goes wrong is an `AddressRefused` or a `TransportFault`.
"""

import ssl

import httpx

KEEP_ALIVE = 30.0  # seconds an idle connection is kept: longer than the usual delay, shorter than most servers keep it


def new_ssl_context() -> ssl.SSLContext:
    """One for the process: loading the root certificates takes 35 ms. SSL_CERT_FILE and SSL_CERT_DIR are honoured."""
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def target_of(url: str) -> tuple[str, bytes]:
    """As-found URL → origin with its slash, and the request target."""
    end = url.index("/", url.index("//") + 2)
    return url[: end + 1], url[end:].encode("ascii")
