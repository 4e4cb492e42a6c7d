"""`max_pages`, met exactly on any number of partitions.

Every page takes a credit before it is released and gives it back if no page came of it. The pool of credits is with
partition 0; the others ask it over `frontier.budget` when they have something due, and return at once what they
cannot use. All of it happens inside units of work, so credits are neither lost nor doubled:

    granted by the pool  =  sum over partitions of (held + reserved + counted), less what is under way on the topic

Without a limit every partition helps itself, and the pool is told what was taken when a limit is set: it grants
nothing before it has heard from every partition.
"""

from typing import assert_never

import msgspec
from msgspec import Struct

from headrace_frontier.turn import Turn
from headrace_schemas.messages import BudgetGrant, BudgetMessage, BudgetRequest, BudgetReturn

BUDGET = b"b"
TOPIC = "frontier.budget"
_POOL = 0
_encode = msgspec.msgpack.Encoder().encode


class Purse(Struct, array_like=True):
    """One partition's side."""

    limit: int = 0
    """`max_pages` it last acted under."""
    drawn: int = 0
    """Credits the pool knows it has: held, reserved or counted."""
    held: int = 0
    reserved: int = 0
    counted: int = 0
    """Pages fetched for the first time, ever."""
    asked: int = 0
    """Number of the last request."""
    waiting: bool = False
    """That request has had no credits yet."""
    dry: bool = False
    """The pool said that it is spent."""


class Pool(Struct, array_like=True):
    """The pool's side; only partition 0 uses it."""

    limit: int = 0
    granted: int = 0
    since: int = 0
    """Revision under which the limit came into force."""
    heard: list[int] = []
    """Partitions that have said what they took before."""
    waiting: list[tuple[int, int]] = []
    """Requests (partition, number) not met yet, oldest first."""


class Books(Struct, array_like=True):
    purse: Purse = msgspec.field(default_factory=Purse)
    pool: Pool = msgspec.field(default_factory=Pool)


class Budget:
    def __init__(self, partition: int, partitions: int, raw: bytes | None) -> None:
        self._partition, self._partitions = partition, partitions
        self._books = msgspec.msgpack.decode(raw, type=Books) if raw else Books()
        self._written = raw

    # ---- what releasing and settling need --------------------------------------------------------

    def reserve(self, turn: Turn) -> bool:
        """Takes a credit for one release. False: none is to be had now."""
        purse = self._books.purse
        if purse.limit:
            if not purse.held:
                self._draw(turn)
            if not purse.held:
                return False
            purse.held -= 1
        purse.reserved += 1
        return True

    def spend(self) -> None:
        """A page came of it."""
        self._books.purse.reserved -= 1
        self._books.purse.counted += 1

    def give_back(self) -> None:
        """No page came of it."""
        purse = self._books.purse
        purse.reserved -= 1
        if purse.limit:
            purse.held += 1

    @property
    def dry(self) -> bool:
        """No release that needs a credit can be made now."""
        purse = self._books.purse
        if not purse.limit or purse.held:
            return False
        return purse.waiting if self._partition != _POOL else not self._open or self._left <= 0

    @property
    def spent(self) -> bool:
        """The limit is reached, as far as this partition can tell."""
        purse = self._books.purse
        if not purse.limit or purse.held or purse.reserved:
            return False
        return purse.waiting and purse.dry if self._partition != _POOL else self.pool_spent

    @property
    def pool_spent(self) -> bool:
        """All credits are given out. A partition asks only when it has something due, so it may not know."""
        return self._partition == _POOL and self._books.pool.limit > 0 and self._open and self._left <= 0

    @property
    def outstanding(self) -> int:
        """Credits held or reserved under a limit."""
        purse = self._books.purse
        return purse.held + purse.reserved if purse.limit else 0

    @property
    def counted(self) -> int:
        return self._books.purse.counted

    # ---- one unit of work ------------------------------------------------------------------------

    def begin(self, turn: Turn) -> None:
        """Follows `max_pages` as it is wanted now."""
        limit = turn.control.settings.max_pages
        if self._partition == _POOL:
            self._begin_pool(turn, limit)
        purse = self._books.purse
        if purse.limit == limit:
            return
        self._return(turn)
        purse.limit = limit
        if limit:
            self._report(turn, answer=False)
        self._distribute(turn)

    def handle(self, message: BudgetMessage, revision: int, turn: Turn) -> None:
        """`revision`: of `crawl.control`, known to the sender."""
        if not self._meant_for_us(message):
            return
        match message:
            case BudgetGrant():
                self._granted(message, turn)
            case BudgetRequest(partition=partition, number=number):
                self._hear(partition, revision, turn)
                self._books.pool.waiting.append((partition, number))
                self._distribute(turn)
                if self._open:
                    self._deny(turn, self._books.pool.waiting[-1:])
            case BudgetReturn(partition=partition, credits=credits):
                self._books.pool.granted -= credits
                self._hear(partition, revision, turn)
                self._distribute(turn)
            case _:
                assert_never(message)

    def _meant_for_us(self, message: BudgetMessage) -> bool:
        """A number out of range must not count as a partition heard."""
        if isinstance(message, BudgetGrant):
            return message.partition == self._partition != _POOL
        return self._partition == _POOL and 0 < message.partition < self._partitions

    def finish(self, turn: Turn, *, active: bool) -> None:
        """`active`: something here is under way or due, and will use what is held."""
        if not active:
            self._return(turn)
        self._distribute(turn)
        raw = _encode(self._books)
        if raw != self._written and (self._written is not None or raw != _encode(Books())):
            turn.unit.put(BUDGET, raw)
            self._written = raw

    # ---- a partition's side ----------------------------------------------------------------------

    def _draw(self, turn: Turn) -> None:
        purse = self._books.purse
        if self._partition == _POOL:
            if self._open and self._left > 0:
                self._credit(self._chunk())
        elif not purse.waiting:
            purse.asked += 1
            purse.waiting, purse.dry = True, False
            self._send(turn, _POOL, BudgetRequest(self._partition, purse.asked))

    def _granted(self, grant: BudgetGrant, turn: Turn) -> None:
        purse = self._books.purse
        if grant.number == 0:
            self._report(turn, answer=True)
            return
        purse.held += grant.credits
        purse.drawn += grant.credits
        if grant.number == purse.asked:
            purse.waiting, purse.dry = grant.credits == 0, grant.credits == 0

    def _return(self, turn: Turn) -> None:
        """Under a limit, nothing is held that cannot be used."""
        purse = self._books.purse
        if not purse.limit or not purse.held:
            return
        credits, purse.held = purse.held, 0
        purse.drawn -= credits
        if self._partition == _POOL:
            self._books.pool.granted -= credits
        else:
            self._send(turn, _POOL, BudgetReturn(self._partition, credits))

    def _report(self, turn: Turn, *, answer: bool) -> None:
        """Tells the pool what was taken without asking."""
        purse = self._books.purse
        taken = purse.held + purse.reserved + purse.counted - purse.drawn
        purse.drawn += taken
        if self._partition == _POOL:
            self._books.pool.granted += taken
        elif taken or answer:
            self._send(turn, _POOL, BudgetReturn(self._partition, -taken))

    # ---- the pool's side -------------------------------------------------------------------------

    def _begin_pool(self, turn: Turn, limit: int) -> None:
        pool = self._books.pool
        if limit and not pool.limit:
            pool.since, pool.heard = turn.control.revision, []
            for partition in range(1, self._partitions):
                self._send(turn, partition, BudgetGrant(partition, 0, 0))  # number 0: say what you have
        pool.limit = limit

    def _hear(self, partition: int, revision: int, turn: Turn) -> None:
        """A message sent under the limit comes after all that its partition took without one."""
        pool = self._books.pool
        if not pool.limit or revision < pool.since or partition in pool.heard:
            return
        pool.heard.append(partition)
        if self._open:  # that was the last one
            self._distribute(turn)
            self._deny(turn, pool.waiting)

    def _deny(self, turn: Turn, requests: list[tuple[int, int]]) -> None:
        """There is nothing now. They stay in line for what is returned."""
        for partition, number in requests:
            self._send(turn, partition, BudgetGrant(partition, number, 0))

    def _distribute(self, turn: Turn) -> None:
        if self._partition != _POOL:
            return
        pool = self._books.pool
        while pool.waiting and self._open and self._left > 0:
            partition, number = pool.waiting.pop(0)
            credits = self._chunk()
            pool.granted += credits
            self._send(turn, partition, BudgetGrant(partition, number, credits))

    def _credit(self, credits: int) -> None:
        self._books.pool.granted += credits
        self._books.purse.drawn += credits
        self._books.purse.held += credits

    def _chunk(self) -> int:
        return max(1, self._left // (4 * self._partitions))

    @property
    def _open(self) -> bool:
        return len(self._books.pool.heard) >= self._partitions - 1

    @property
    def _left(self) -> int:
        return self._books.pool.limit - self._books.pool.granted

    def _send(self, turn: Turn, partition: int, message: BudgetMessage) -> None:
        turn.send(TOPIC, partition, message)
