"""Heads of answers that say twice where the body ends: llhttp refuses them, browsers read those that are no riddle."""

import re

_END = re.compile(rb"\r?\n\r?\n").search
_LINES = re.compile(rb"\r?\n").split
_INTERIM = re.compile(rb"HTTP/1\.\d 1\d\d").match


def mended(data: bytes) -> bytes | None:
    """What came of an answer so far, interim ones left away, in a form that has one meaning; empty: the head is not
    all here; None: it has no one meaning.

    RFC 9112 section 6.3: the same length twice is that length, and `chunked` beats any. `identity` (RFC 2616) says
    nothing. Whoever asks does not use the connection again: another reader may have seen another end."""
    while True:
        end = _END(data)
        if end is None:
            return b""
        if not _INTERIM(data):
            break
        data = data[end.end() :]
    start, *fields = _LINES(data[: end.start()])
    kept, codings, lengths = [start], set(), set()
    for field in fields:
        name, _, value = field.partition(b":")
        values = {one.strip().lower() for one in value.split(b",")} - {b""}
        match name.strip().lower():
            case b"transfer-encoding":
                codings |= values
            case b"content-length":
                lengths |= values
            case _:
                kept.append(field)
    codings -= {b"identity"}
    if codings == {b"chunked"}:
        kept.append(b"Transfer-Encoding: chunked")
    elif codings or len(lengths) > 1 or not all(length.isdigit() for length in lengths):
        return None
    else:
        kept += [b"Content-Length: " + length for length in lengths]
    return b"\r\n".join(kept) + b"\r\n\r\n" + data[end.end() :]
