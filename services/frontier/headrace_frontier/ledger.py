"""The one place where a URL changes its state: entry, counters and queue move together."""

import msgspec

from headrace_frontier.counters import Counters
from headrace_frontier.hosts import Host, Hosts
from headrace_frontier.leases import Lease, Leases, id_key, task_of
from headrace_frontier.queues import FIRST, NORMAL, Item, Queue, delayed_place, is_delayed, ready_place, sequence_of
from headrace_frontier.seen import Entry, known_reason, pack, seen_key
from headrace_frontier.turn import Turn
from headrace_schemas.messages import Failed, FetchResult, Refused, State, TaskKind

RUN_MASK = 0xFFFFFFFF  # run ids are remembered in four bytes, and only compared for equality


class Ledger:
    def __init__(
        self, partition: int, counters: Counters, hosts: Hosts, ready: Queue, delayed: Queue, leases: Leases
    ) -> None:
        self.partition, self.counters, self.hosts, self.leases = partition, counters, hosts, leases
        self.ready, self.delayed = ready, delayed

    def write(self, turn: Turn, key: bytes, old: Entry | None, new: Entry) -> None:
        if old is not None:
            self.counters.count(old, -1)
        self.counters.count(new, 1)
        turn.unit.put(seen_key(key), pack(new))

    def touch(self, turn: Turn, host: Host) -> None:
        """`host` may have something to release, and its record has changed."""
        turn.touched[host.name] = host
        self.hosts.change(host)

    # ---- queued ----------------------------------------------------------------------------------

    def enqueue(
        self, turn: Turn, host: Host, old: Entry | None, item: Item, *, at: float | None = None, first: bool = False
    ) -> None:
        """`at`: not before then. `first`: ahead of what was found, since it was begun already."""
        if at is not None and at > turn.now:
            place = delayed_place(at, self.counters.next_sequence())
            self.delayed.push(turn.unit, host.id, host.delayed, place, item)
        else:
            ahead = FIRST if first or item.counted else NORMAL
            place = ready_place(ahead, item.priority, item.depth, host.next_sequence())
            self.ready.push(turn.unit, host.id, host.ready, place, item)
        entry = Entry(
            State.QUEUED,
            depth=item.depth,
            hop=item.hop,
            attempts=item.attempt,
            revision=turn.revision,
            run=item.run,
            counted=item.counted,
            place=place,
        )
        self.write(turn, item.key, old, entry)
        self.touch(turn, host)

    def move(self, turn: Turn, host: Host, entry: Entry, better: Item) -> None:
        """A queued URL was found in a better way: depth, hop and referrer are of that way, the rest stays."""
        queue, line = (self.delayed, host.delayed) if is_delayed(entry.place) else (self.ready, host.ready)
        item = queue.get(turn.unit, host.id, entry.place)
        if item is None:
            raise LookupError(f"{better.url} is queued, but not at its place")  # the state is broken: do not go on
        moved = msgspec.structs.replace(
            item,
            url=better.url,
            depth=better.depth,
            hop=better.hop,
            referrer=better.referrer,
            chain=better.chain,
            page_type=better.page_type,
            priority=better.priority,
        )
        place = entry.place
        if queue is self.ready:
            queue.remove(turn.unit, host.id, line, place)
            place = ready_place(place[0], moved.priority, moved.depth, sequence_of(place))
            queue.push(turn.unit, host.id, line, place, moved)
            self.touch(turn, host)
        else:
            queue.replace(turn.unit, host.id, place, moved)
        new = msgspec.structs.replace(entry, depth=moved.depth, hop=moved.hop, place=place)
        self.write(turn, item.key, entry, new)

    def mark(self, turn: Turn, host: Host, key: bytes, entry: Entry, run: int) -> Entry:
        """It was asked for once more in `run`, which it need not be: it is under way, or cannot be had."""
        if entry.state is State.QUEUED:
            queue = self.delayed if is_delayed(entry.place) else self.ready
            item = queue.get(turn.unit, host.id, entry.place)
            if item is None:
                raise LookupError(f"{key.hex()} is queued, but not at its place")
            queue.replace(turn.unit, host.id, entry.place, msgspec.structs.replace(item, run=run))
        elif entry.state is State.IN_FLIGHT:
            self.leases.mark(turn.unit, key, run)
        new = msgspec.structs.replace(entry, run=run)
        self.write(turn, key, entry, new)
        return new

    def dequeue(self, turn: Turn, host: Host, place: bytes) -> None:
        """Off its queue; the caller says what becomes of it."""
        if is_delayed(place):
            self.delayed.remove(turn.unit, host.id, host.delayed, place)
        else:
            self.ready.remove(turn.unit, host.id, host.ready, place)
        self.hosts.change(host)

    # ---- in flight -------------------------------------------------------------------------------

    def lease(self, turn: Turn, lease: Lease) -> None:
        """Released: the task goes out in the unit that remembers it."""
        self.leases.add(turn.unit, lease)
        self.counters.released += 1
        if lease.kind == "page":
            self.settle(turn, lease.item, State.QUEUED, State.IN_FLIGHT)
        else:
            self.counters.tasks_in_flight += 1
        turn.send("urls.to_fetch", self.partition, task_of(lease), id_key(lease.fetch_id))

    # ---- settled ---------------------------------------------------------------------------------

    def settle(self, turn: Turn, item: Item, was: State, state: State, reason: str = "") -> None:
        """`was`: queued or in flight; of such a URL the item says all that its entry does, so that is not read."""
        if state is State.REFUSED:
            self.counters.deny(reason)
        new = Entry(
            state,
            depth=item.depth,
            hop=item.hop,
            reason=known_reason(reason),
            attempts=item.attempt,
            revision=turn.revision,
            run=item.run,
            counted=item.counted,
        )
        self.write(turn, item.key, Entry(was, counted=item.counted), new)

    def refuse(self, turn: Turn, item: Item, reason: str) -> None:
        """By circumstance, without a request. It has no row in the index, and is judged again if found again."""
        self.settle(turn, item, State.QUEUED, State.REFUSED, reason)
        turn.unfetched += 1

    def settle_unfetched(self, turn: Turn, item: Item, state: State, reason: str) -> None:
        """No request is made for it: the index learns of it here, under a number of its own."""
        self.settle(turn, item, State.QUEUED, state, reason)
        self.announce(turn, item, state, reason)
        turn.unfetched += 1

    def announce(
        self, turn: Turn, item: Item, state: State, reason: str, kind: TaskKind = "page", status: int = 0
    ) -> None:
        """`status`: of the answer that it is said of."""
        result = FetchResult(
            fetch_id=self.counters.next_fetch_id(turn.now),
            url=item.url,
            key=item.key,
            outcome=Refused(reason) if state is State.REFUSED else Failed(reason, status),
            kind=kind,
            depth=item.depth,
            hop=item.hop,
            referrer=item.referrer,
            page_type=item.page_type,
            attempt=item.attempt,
            finished_at=turn.now,
            chain=item.chain,
            run=turn.run,
        )
        turn.send("fetch.results", self.partition, result, id_key(result.fetch_id))
