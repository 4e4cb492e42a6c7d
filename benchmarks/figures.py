"""What a benchmark says: figures with the bar each has to reach, as a table for people and as JSON for scripts.

A figure is for each second of CPU wherever it can be: this says the same on a machine that others are using too.
"""

import json
import os
import platform
import time
from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs


class Figure(Struct, frozen=True):
    group: str
    """What was done."""
    case: str
    """How much of it, or by whom."""
    value: float
    unit: str
    bar: str = ""
    """`>= 80000`: what it must reach; empty: it is there to compare with."""
    note: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `MISSED`, or nothing where there is no bar."""
        if not self.bar:
            return ""
        sign, _, limit = self.bar.partition(" ")
        reached = {
            ">=": self.value >= float(limit),
            "<=": self.value <= float(limit),
            "<": self.value < float(limit),
            ">": self.value > float(limit),
            "==": self.value == float(limit),
        }[sign]
        return "ok" if reached else "MISSED"


def table(figures: Iterable[Figure]) -> str:
    rows = [("what", "case", "value", "unit", "bar", "", "note")]
    rows += [(f.group, f.case, number(f.value), f.unit, f.bar, f.verdict, f.note) for f in figures]
    return grid(rows, right=(2,))


def grid(rows: Sequence[Sequence[str]], right: Container[int]) -> str:
    """`rows`: the first is the head. `right`: columns of numbers."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(path: Path, figures: Iterable[Figure], **more: Any) -> None:
    rows = [structs.asdict(figure) | {"verdict": figure.verdict} for figure in figures]
    path.write_text(json.dumps({"machine": machine(), "figures": rows, **more}, indent=1) + "\n")


def machine() -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "cpu": _processor(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """Its name, where the system tells (Linux)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def headline() -> str:
    facts = machine()
    return f"{facts['date']}, {facts['cores']} cores, Python {facts['python']}, load {facts['load']} at the start"


def memory(process: int | str = "self", field: str = "VmRSS") -> float:
    """MB resident now; `VmHWM`: at the most so far (Linux)."""
    with open(f"/proc/{process}/status") as status:
        line = next(line for line in status if line.startswith(field + ":"))
    return int(line.split()[1]) / 1024
