"""Entries that a frontier of any release so far has written to its changelog are read by this one."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from headrace_frontier import counters, hosts, origins, seen
from headrace_frontier.aside import ASIDE
from headrace_frontier.budget import BUDGET, Books
from headrace_frontier.caps import GROUP
from headrace_frontier.counters import COUNTERS
from headrace_frontier.due import DUE
from headrace_frontier.hosts import HOST
from headrace_frontier.leases import LEASE, Lease
from headrace_frontier.origins import ORIGIN, RULES
from headrace_frontier.queues import DELAYED, READY, Item
from headrace_frontier.rules import Rulebook
from headrace_frontier.seen import REASONS, SEEN, Entry
from headrace_runtime.streams.seams import Unit
from headrace_schemas.messages import Robots, State
from tests.frontier.golden import FOLDER, SAMPLES, SUMS, entries_in, golden_file, sum_of
from tests.frontier.world import NOT_FOUND, Page, World, failing, page

_item = msgspec.msgpack.Decoder(Item).decode

READ: dict[bytes, Callable[[bytes], Any]] = {
    SEEN: seen.unpack,
    COUNTERS: counters.load,
    BUDGET: msgspec.msgpack.Decoder(Books).decode,
    DUE: bytes.decode,
    HOST: hosts.load,
    LEASE: msgspec.msgpack.Decoder(Lease).decode,
    ORIGIN: origins.load,
    ASIDE: _item,
    RULES: msgspec.msgpack.Decoder(Rulebook).decode,
    READY: _item,
    DELAYED: _item,
    GROUP: lambda raw: int.from_bytes(raw, "big"),
}
"""As the frontier reads it today, by the first byte of the key."""


@pytest.mark.parametrize("name", SAMPLES)
def test_an_old_entry_is_found_under_its_key_and_means_what_it_meant(name: str) -> None:
    assert [(key, READ[key[:1]](raw)) for key, raw in entries_in(name)] == SAMPLES[name]


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"seen", "seen_states", "seen_reasons"}))
def test_no_field_of_a_golden_file_was_left_at_its_default_when_it_was_written(name: str) -> None:
    """A default would be read back even if the field were lost."""
    for (_, value), (_, raw) in zip(SAMPLES[name], entries_in(name), strict=True):
        if isinstance(value, Struct):
            written = msgspec.msgpack.decode(raw)
            for part in _parts(value):
                for field in msgspec.structs.fields(part)[: len(written) if part is value else None]:
                    assert getattr(part, field.name) not in (field.default, None), field.name


def test_every_field_of_every_kind_is_away_from_its_default_in_some_sample() -> None:
    """One that is appended wants a sample of its own: a file that never held it does not show that it is read."""
    unset: dict[tuple[str, str], bool] = {}
    for entries in SAMPLES.values():
        for _, value in entries:
            for part in _parts(value):
                for field in msgspec.structs.fields(part):
                    place = (type(part).__name__, field.name)
                    unset[place] = unset.get(place, True) and getattr(part, field.name) == field.default
    assert not [place for place, is_unset in unset.items() if is_unset]
    known = [value for sample in SAMPLES.values() for _, value in sample if isinstance(value, Entry)]
    assert {entry.state for entry in known} == set(State)
    assert {entry.reason for entry in known} == set(REASONS)


def test_every_kind_that_a_crawl_writes_has_a_golden_file() -> None:
    urls = [f"http://a.test/owner{n}/repo/issues/{m}" for n in range(3) for m in range(4)]
    web = {url: page() for url in urls} | {
        "http://b.test/": Page((failing(), NOT_FOUND.outcomes[0])),
        "http://b.test/robots.txt": Page((Robots(200, b"user-agent: *\ndisallow: /x\n"),)),
    }
    world = World(web, max_pages=9, group="https?://[^/]+/([^/]+)/", group_pages=("*=3",))
    written: set[bytes] = set()
    turn = world.turn

    def noted(partition: int, **more: int) -> Unit:
        unit = turn(partition, **more)
        written.update(key[:1] for key in unit.writes)
        return unit

    world.turn = noted  # type: ignore[method-assign]
    world.seed(*web)
    world.run()
    world.desired.change(scope_deny=("/repo/",), max_pages=100)
    world.run()
    sampled = {key[:1] for entries in SAMPLES.values() for key, _ in entries}
    assert written == sampled == READ.keys()


def test_a_golden_file_is_never_written_anew() -> None:
    """If this fails, today's code no longer reads the state it wrote yesterday: append a field."""
    assert sorted(SUMS.read_text().splitlines()) == sorted(sum_of(file) for file in FOLDER.glob("*.bin"))


def test_there_is_a_golden_file_of_every_sample_and_a_sample_of_every_golden_file() -> None:
    """Missing ones are written by `python -m tests.frontier.golden`."""
    assert {path.name for path in FOLDER.glob("*.bin")} == {golden_file(name).name for name in SAMPLES}


def _parts(value: Any) -> Iterator[Struct]:
    if isinstance(value, Struct):
        yield value
        for field in value.__struct_fields__:
            yield from _parts(getattr(value, field))
