"""Store and index as one: what a batch of records becomes, in the one order that survives a kill at any point.

1. the records are read            killed here: nothing happened
2. the bodies are durable          killed here: bodies that no row names yet; the same records bring both again
3. the rows are committed          killed here: done, and done again to the same effect when delivered again
4. the offsets pass                (the sink lays the records on their desks)
"""

from collections.abc import Callable, Sequence

from headrace_runtime.streams.seams import Record
from headrace_schemas.errors import FatalError, Poison
from headrace_storer.changes import Change
from headrace_storer.handler import Job, handle
from headrace_storer.index import Index
from headrace_storer.store import Store

Read = Job | Poison | FatalError


class Batch:
    """Records on their way to the disk. Kept whole until it is there; what is read is read once, however many tries."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.jobs: list[Read] | None = None
        self.written = 0
        """Bytes of new bodies, over all tries."""


class Archive:
    """Blocking, and not for two threads at once: the sink gives it one of its own."""

    def __init__(
        self,
        store: Store,
        open_index: Callable[[], Index],
        abandoned_before: Callable[[], float],
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        self.cut = cut
        """From another thread: ends what waits for the index, as `Unavailable`."""
        self._store = store
        self._open_index = open_index
        self._abandoned_before = abandoned_before
        self._index: Index | None = None

    def open(self) -> Index:
        """Also after a start at which the index did not answer: `Unavailable` until it does."""
        if self._index is None:
            self._store.open(abandoned_before=self._abandoned_before())
            self._index = self._open_index()
        return self._index

    def keep(self, batch: Batch) -> list[Read]:
        """→ what each record came to, those that the index refuses being `Poison` now. `Unavailable`: call it again
        with the same batch."""
        index = self.open()
        if batch.jobs is None:
            batch.jobs = [_read(record) for record in batch.records]
        jobs = [job for job in batch.jobs if isinstance(job, Job)]
        batch.written += self._store.write_batch(job.body for job in jobs if job.body is not None)
        changes = {number: job.changes for number, job in enumerate(batch.jobs) if isinstance(job, Job)}
        refused = save_all_but_refused(index.save, [change for some in changes.values() for change in some])
        if not refused:
            return batch.jobs
        return [
            next((refused[id(change)] for change in changes.get(number, ()) if id(change) in refused), read)
            for number, read in enumerate(batch.jobs)
        ]

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None


def _read(record: Record) -> Read:
    try:
        return handle(record)
    except (Poison, FatalError) as error:
        return error


def save_all_but_refused(save: Callable[[Sequence[Change]], None], changes: Sequence[Change]) -> dict[int, Poison]:
    """Halves a batch that is refused until the bad rows stand alone: `log2(n)` more transactions for one of them.
    → by `id` of the change, why it was refused; everything else is saved."""
    if not changes:
        return {}
    try:
        save(changes)
    except Poison as error:
        if len(changes) == 1:
            return {id(changes[0]): error}
        middle = len(changes) // 2
        return save_all_but_refused(save, changes[:middle]) | save_all_but_refused(save, changes[middle:])
    return {}
