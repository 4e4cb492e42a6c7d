"""Carries a plan out on a fleet, and waits until the crawl is complete or its time is up."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from benchmarks.torture.fleet import Target
from benchmarks.torture.plan import Fault

_TICK = 0.02
_LOOK = 2.0
"""Seconds between two looks whether it is complete: each costs most of a second of CPU."""
_GIVE_UP = 10
"""Times that processes may end by themselves before it is called off: they would only go round in circles."""


class Met(Struct, frozen=True):
    """A fault as it was done; times as the web's log has them."""

    what: str
    who: str
    began: float
    back: float
    """Started again, or continued."""


class Outcome(Struct):
    met: list[Met]
    died: list[str]
    """Who ended by itself, and with what word."""
    seconds: float = 0.0
    hung: str = ""
    """What it waited for when its time was up; empty: it is complete."""


class Asked:
    """How many requests the web has written into its log, by reading on where the last look ended."""

    def __init__(self, log: Path) -> None:
        self._log, self._position, self._count = log, 0, 0

    def __call__(self) -> int:
        with self._log.open("rb") as file:
            file.seek(self._position)
            new = file.read()
        self._position += len(new)
        self._count += new.count(b"\n")
        return self._count


class Storm:
    """`finishing`: a target that ends by itself with exit code 0 has completed the crawl; else `unfinished` says why it
    is not complete, and is empty once it is."""

    def __init__(
        self,
        targets: Sequence[Target],
        plan: Sequence[Fault],
        asked: Callable[[], int],
        unfinished: Callable[[], str],
        seconds: float,
        *,
        finishing: bool = False,
    ) -> None:
        self._targets = {target.name: target for target in targets}
        self._plan = list(plan)
        self._asked, self._unfinished, self._finishing = asked, unfinished, finishing
        self._seconds = seconds
        self._away: dict[str, tuple[Fault, float]] = {}
        """Who is down or paused, and since when."""
        self._due: dict[Fault, float] = {}
        """When a fault whose number of requests was reached is to be done, at the earliest."""
        self._next_look = 0.0
        self._why = ""
        self.outcome = Outcome([], [])

    def run(self) -> Outcome:
        began = time.monotonic()
        while not self._over(began):
            time.sleep(_TICK)
        self._bring_back(everyone=True)
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _over(self, began: float) -> bool:
        now = time.monotonic()
        self._bring_back()
        if self._ended():
            return True
        if len(self.outcome.died) >= _GIVE_UP:
            self.outcome.hung = f"processes end by themselves: {self.outcome.died[-1]}"
            return True
        if now > began + self._seconds:
            self.outcome.hung = self._word()
            return True
        if self._plan:
            self._maybe_fault(now)
        elif not self._away and not self._finishing and now >= self._next_look:
            self._why = self._unfinished()
            self._next_look = time.monotonic() + _LOOK
            return not self._why
        return False

    def _word(self) -> str:
        if self._plan:
            return f"{len(self._plan)} faults not met, next: {self._plan[0]}; {self._asked()} requests so far"
        return self._why or self._unfinished() or "it was complete only after its time was up"

    def _ended(self) -> bool:
        """Starts again what ended by itself, as a supervisor would. → whether the crawl is over."""
        for target in self._targets.values():
            if target.name in self._away or (code := target.ended()) is None:
                continue
            if code == 0 and self._finishing:
                return True
            self.outcome.died.append(f"{target.name}, exit {code}: {target.tail()[-300:]}")
            target.start()
        return False

    def _maybe_fault(self, now: float) -> None:
        """In the order of the plan, but that one whose target is not ready (a broker, while copies are missing) lets
        the others pass."""
        asked = self._asked()
        for fault in self._plan:
            if asked < fault.at:
                return
            due = self._due.setdefault(fault, now + fault.wait)
            if now >= due and fault.who not in self._away and self._targets[fault.who].ready():
                self._plan.remove(fault)
                self._do(fault)
                return

    def _do(self, fault: Fault) -> None:
        target = self._targets[fault.who]
        self._away[fault.who] = fault, time.monotonic()
        if fault.what == "kill":
            target.kill()
        else:
            target.pause(True)

    def _bring_back(self, everyone: bool = False) -> None:
        for name, (fault, since) in list(self._away.items()):
            if not everyone and time.monotonic() < since + fault.seconds:
                continue
            if fault.what == "kill":
                self._targets[name].start()
            else:
                self._targets[name].pause(False)
            del self._away[name]
            self.outcome.met.append(Met(fault.what, name, since, time.monotonic()))
