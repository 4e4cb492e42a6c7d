"""What the bytes in the database are. Every key starts with the name of what it belongs to, never with a number that a
later release could give to something else.

| column family | key | value |
|---|---|---|
| log | topic 0 partition offset | timestamp, key length, key, value |
| default | `E` topic 0 partition | first offset kept, next offset, newest timestamp |
| default | `O` group 0 topic 0 partition | prefix that is done, bitmap of what is done beyond it |
| default | `T` topic 0 row key | the row |
| default | `M` name | format, partitions |
| state | group 0 partition entry key | the entry |
"""

import struct
from typing import NamedTuple

FORMAT = 1
"""Number of this layout. A database with a higher one is refused."""

DEFAULT, LOG, STATE = "default", "log", "state"

OFFSET = struct.Struct(">Q")
_PARTITION = struct.Struct(">H")
_HEAD = struct.Struct(">dI")
_EXTENT = struct.Struct(">QQd")
_NUMBER = struct.Struct(">I")

FORMAT_KEY = b"Mformat"
PARTITIONS_KEY = b"Mpartitions"
BOOKMARKS = b"O"


class Extent(NamedTuple):
    """What one partition of a topic holds."""

    start: int
    """The oldest offset kept."""
    end: int
    """The offset the next record gets."""
    newest: float
    """Timestamp of the last record: the next one is never older, so that a time can be searched for."""


def log_prefix(topic: str, partition: int) -> bytes:
    return topic.encode() + b"\0" + _PARTITION.pack(partition)


def extent_key(topic: str, partition: int) -> bytes:
    return b"E" + log_prefix(topic, partition)


def bookmark_key(group: str, topic: str, partition: int) -> bytes:
    return BOOKMARKS + group.encode() + b"\0" + log_prefix(topic, partition)


def bookmark_owner(key: bytes) -> tuple[str, str, int]:
    """→ group, topic, partition."""
    group, _, rest = key[1:].partition(b"\0")
    return group.decode(), rest[:-3].decode(), int(_PARTITION.unpack(rest[-2:])[0])


def table_prefix(topic: str) -> bytes:
    return b"T" + topic.encode() + b"\0"


def state_prefix(group: str, partition: int) -> bytes:
    return group.encode() + b"\0" + _PARTITION.pack(partition)


def pack_record(timestamp: float, key: bytes, value: bytes) -> bytes:
    return _HEAD.pack(timestamp, len(key)) + key + value


def unpack_record(raw: bytes) -> tuple[float, bytes, bytes]:
    """→ timestamp, key, value."""
    timestamp, length = _HEAD.unpack_from(raw)
    body = _HEAD.size + length
    return timestamp, raw[_HEAD.size : body], raw[body:]


def timestamp_of(raw: bytes) -> float:
    return float(_HEAD.unpack_from(raw)[0])


def pack_extent(extent: Extent) -> bytes:
    return _EXTENT.pack(*extent)


def unpack_extent(raw: bytes | None) -> Extent:
    return Extent(*_EXTENT.unpack(raw)) if raw else Extent(0, 0, 0.0)


def pack_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def unpack_number(raw: bytes) -> int:
    return int(_NUMBER.unpack(raw)[0])
