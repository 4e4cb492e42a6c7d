"""The due index serves from a remembered head, which must never pass a host that still waits."""

from headrace_frontier.counters import Counters
from headrace_frontier.due import DueIndex
from headrace_frontier.hosts import Host
from headrace_runtime.streams.memory import MemoryState
from headrace_runtime.streams.seams import Unit


def test_a_host_put_back_within_the_same_millisecond_is_served_again() -> None:
    state = MemoryState()
    index = DueIndex(state, Counters())
    hosts = {name: Host(name, id_) for name, id_ in (("a", b"a" * 8), ("b", b"b" * 8))}
    unit = Unit(state)
    for host in hosts.values():
        index.schedule(unit, host, 5.0)
    state.apply(unit)
    unit = Unit(state)
    index.begin()
    for name in index.due(unit, 5.0):
        index.schedule(unit, hosts[name], 5.0 if name == "a" else None)
    state.apply(unit)
    index.begin()
    assert list(index.due(Unit(state), 5.0)) == ["a"]
    assert index.next(Unit(state)) == (5.0, "a")


def test_a_host_scheduled_before_the_head_is_served() -> None:
    state = MemoryState()
    index = DueIndex(state, Counters())
    late, early = Host("late", b"l" * 8), Host("early", b"e" * 8)
    for at, host in ((9.0, late), (3.0, early)):
        unit = Unit(state)
        index.begin()
        list(index.due(unit, 9.0))
        index.schedule(unit, host, at)
        state.apply(unit)
    index.begin()
    assert list(index.due(Unit(state), 10.0)) == ["early", "late"]
