"""Bytes on the wire: a six-byte header, then msgpack.

    magic "H" | format version (u8) | revision of crawl.control the sender knew (u32, big endian) | msgpack

The header is checked before anything is decoded. A newer version stops the reader (`TooNew`: upgrade it), and so does
a type, an outcome or a choice that it has no word for: releases run side by side while a fleet is upgraded, and what a
newer one sent is to wait, not to be buried. Anything else that does not decode is `Poison`.
"""

import re
import struct
from functools import cache
from typing import Any

import msgspec

from headrace_schemas.errors import Poison, TooNew
from headrace_schemas.topics import TOPICS

VERSION = 1
_MAGIC = 0x48
_HEADER = struct.Struct(">BBI")
_UNKNOWN = re.compile(r"Invalid (?:enum )?value '(\w+)'")
"""What msgspec says of a tag, or of a `Literal`, that is none of those it was told."""
_encoder = msgspec.msgpack.Encoder()


def encode(message: msgspec.Struct, revision: int = 0) -> bytes:
    return _HEADER.pack(_MAGIC, VERSION, revision) + _encoder.encode(message)


def decode(topic: str, value: bytes) -> Any:
    """The message of `topic` in `value`; its type is one of that topic's row in the topic table."""
    revision_of(value)
    try:
        return _decoder(topic).decode(memoryview(value)[_HEADER.size :])
    # ValidationError is a DecodeError; text that is not UTF-8 and nesting without end are not.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        word = _UNKNOWN.match(str(error))
        if word is not None and word[1] not in _tags():
            raise TooNew(f"{topic}: {word[1]!r} is nothing that this release knows: upgrade it") from None
        raise Poison(f"{topic}: {error}") from None


@cache
def _tags() -> frozenset[str]:
    """Of all messages: one of another topic is no newer release's."""
    return frozenset(str(kind.__struct_config__.tag) for row in TOPICS.values() for kind in row.types)


def revision_of(value: bytes) -> int:
    """Checks the header; cheap, nothing is decoded."""
    if len(value) < _HEADER.size:
        raise Poison(f"a message of {len(value)} bytes has no header")
    magic, version, revision = _HEADER.unpack_from(value)
    if magic != _MAGIC or version == 0:
        raise Poison("not a headrace message")
    if version > VERSION:
        raise TooNew(f"a message of format {version}; this release reads up to {VERSION}: upgrade it")
    return int(revision)


@cache
def _decoder(topic: str) -> msgspec.msgpack.Decoder[Any]:
    types = TOPICS[topic].types
    union: Any = types[0]
    for other in types[1:]:
        union = union | other
    return msgspec.msgpack.Decoder(union)
