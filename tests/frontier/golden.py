"""Entries of the frontier's state as they were once written, and a writer of the golden files that are missing:
`python -m tests.frontier.golden`. One that is there is never touched: it stands for what waits in somebody's changelog.
`golden/sums.txt` (for `sha256sum -c`) says what each one was. A file is a list of (key, value) in msgpack.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace_frontier.aside import ASIDE
from headrace_frontier.budget import BUDGET, Books, Pool, Purse
from headrace_frontier.caps import group_key
from headrace_frontier.counters import COUNTERS, Counters
from headrace_frontier.due import _key as due_key
from headrace_frontier.hosts import Host, host_id, host_key
from headrace_frontier.leases import LEASE, Lease, id_key
from headrace_frontier.origins import OriginRecord, origin_key, rules_key
from headrace_frontier.queues import DELAYED, READY, Item, Line, delayed_place, ready_place
from headrace_frontier.rules import Rulebook
from headrace_frontier.seen import Entry, pack, seen_key
from headrace_schemas.messages import State

FOLDER = Path(__file__).parent / "golden"
SUMS = FOLDER / "sums.txt"

_HOST = "example.org"
_KEY = bytes(range(16))
_ITEM = Item(
    url="https://example.org/a?b=1",
    key=_KEY,
    depth=3,
    hop=1,
    referrer="https://example.org/",
    chain=("https://example.org/old",),
    attempt=2,
    etag='"x"',
    last_modified="Mon, 05 Jan 2026 10:00:00 GMT",
    page_type="issue",
    counted=True,
    priority=2,
    run=7,
)
_ORIGIN = OriginRecord(
    status=200,
    text=b"user-agent: *\ndisallow: /x\n",
    fetched_at=1_767_607_200.25,
    valid_until=1_767_693_600.0,
    tries=1,
    retry_at=1_767_607_300.0,
    given_up=2,
    forbidden=3,
)
_READY = ready_place(1, 2, 3, 41)
_DELAYED = delayed_place(1_767_607_200.25, 42)

# Word by word, and not from the frontier's own table: that one may have been put into another order since.
_STATES = {
    1: State.QUEUED,
    2: State.IN_FLIGHT,
    3: State.FETCHED,
    4: State.REDIRECTED,
    5: State.FAILED,
    6: State.REFUSED,
}
_REASONS = (
    "",
    "depth",
    "hop",
    "robots_disallow",
    "address",
    "trap",
    "cap",
    "http",
    "timeout",
    "connect",
    "dns",
    "tls",
    "protocol",
    "too_large",
    "decode",
    "not_html",
    "bad_redirect",
    "too_many_redirects",
    "host_dead",
    "robots_unavailable",
    "poison",
    "crashed",
    "over_budget",
    "too_slow",
    "headers",
    "host_not_allowed",
    "subdomain_denied",
    "denied_pattern",
    "not_in_allowlist",
)

SAMPLES: dict[str, list[tuple[bytes, Any]]] = {
    "seen": [
        (seen_key(_KEY), Entry(State.QUEUED, 3, 1, "", 2, 12, 7, True, _READY)),
        (seen_key(_KEY[::-1]), Entry(State.QUEUED, 300, 0, "", 1, 12, 7, False, _DELAYED)),
    ],
    "seen_states": [
        (seen_key(bytes(15) + bytes((number,))), Entry(state, 1, 2, "", 3, 4, 5)) for number, state in _STATES.items()
    ],
    "seen_reasons": [
        (seen_key(b"reason" + bytes(9) + bytes((code,))), Entry(State.REFUSED, 1, 2, reason, 3, 4, 5))
        for code, reason in enumerate(_REASONS)
    ],
    "counters": [
        (
            COUNTERS,
            Counters(
                sequence=1,
                fetch_id=1_767_607_200_000_002,
                states=[0, 3, 4, 5, 6, 7, 8],
                tasks_in_flight=9,
                free=10,
                body_bytes=11,
                released=12,
                late=13,
                rejected={"scheme": 14},
                refused_by={"depth": 15},
                failed_by={"http": 16},
                robots_denials=17,
                waiting_hosts=18,
                oldest_lease=19,
                denied={"cap": 20},
                breakers_open=21,
                breakers_opened=22,
                hosts_given_up=23,
            ),
        )
    ],
    "budget": [
        (
            BUDGET,
            Books(
                Purse(limit=1, drawn=2, held=3, reserved=4, counted=5, asked=6, waiting=True, dry=True),
                Pool(limit=7, granted=8, since=9, heard=[1, 2], waiting=[(3, 10)]),
            ),
        )
    ],
    "due": [(due_key(1_767_607_200_250, host_id(_HOST)), _HOST)],
    "host": [
        (
            host_key(_HOST),
            Host(
                name=_HOST,
                id=host_id(_HOST),
                ready=Line(1, _READY),
                delayed=Line(2, _DELAYED),
                due=1_767_607_200_250,
                window=3,
                turnaround=0.25,
                latency=0.5,
                not_before=1_767_607_201.5,
                failures=4,
                opened=5,
                cooldown_until=1_767_607_202.5,
                given_up=6,
                refusals=7,
                trial=8,
                sequence=41,
                fetched=9,
                body_bytes=10,
                full=11,
                origin="https://example.org",
                why="breaker",
            ),
        )
    ],
    "lease": [
        (
            LEASE + id_key(1_767_607_200_000_002),
            Lease(
                fetch_id=1_767_607_200_000_002,
                kind="page",
                host=_HOST,
                item=_ITEM,
                delay=1.5,
                valid_until=1_767_693_600.0,
                released_at=1_767_607_200.25,
                run=7,
                credit=True,
                connections=2,
                max_bytes=1_000,
                groups=(group_key("issue x"),),
                store=False,
            ),
        )
    ],
    "origin": [(origin_key("https://example.org"), _ORIGIN)],
    "origin_2": [
        (
            origin_key("https://example.org"),
            replace(
                _ORIGIN,
                text=b"x",
                agent="headrace",
                ruled=True,
                delay=2.5,
                delay_rule="line 3: crawl-delay: 2.5",
                sitemaps=4,
            ),
        )
    ],
    "rules": [
        (
            rules_key("https://example.org"),
            Rulebook(text=b"/a/b", table=bytes(range(32)), wild=(("/*.pdf$", 5),), beyond=6),
        )
    ],
    "aside": [(ASIDE + _KEY, _ITEM)],
    "ready": [(READY + host_id(_HOST) + _READY, _ITEM)],
    "delayed": [(DELAYED + host_id(_HOST) + _DELAYED, _ITEM)],
    "group": [(group_key("issue x"), 70_000)],
}


def written(value: Any) -> bytes:
    """As the frontier writes it today."""
    match value:
        case Entry():
            return pack(value)
        case str():
            return value.encode()
        case int():
            return value.to_bytes(4, "big")
        case _:
            return msgspec.msgpack.encode(value)


def golden_file(name: str) -> Path:
    return FOLDER / f"v1-{name}.bin"


def entries_in(name: str) -> list[tuple[bytes, bytes]]:
    return msgspec.msgpack.decode(golden_file(name).read_bytes(), type=list[tuple[bytes, bytes]])


def sum_of(file: Path) -> str:
    return f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, entries in SAMPLES.items():
        file = golden_file(name)
        if not file.exists():
            file.write_bytes(msgspec.msgpack.encode([(key, written(value)) for key, value in entries]))
            with SUMS.open("a") as sums:
                sums.write(sum_of(file) + "\n")
            print("wrote", file.name)


if __name__ == "__main__":
    main()
