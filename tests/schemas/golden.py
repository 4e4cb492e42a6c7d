"""Writes the golden files that are missing: `python -m tests.schemas.golden`. One that is there is never touched: it
stands for the messages that wait in somebody's topics. `golden/sums.txt` (for `sha256sum -c`) says what each one was.
"""

import hashlib
from pathlib import Path

from headrace_schemas import codec
from tests.schemas.samples import SAMPLES

FOLDER = Path(__file__).parent / "golden"
SUMS = FOLDER / "sums.txt"
REVISION = 12


def golden_file(name: str) -> Path:
    return FOLDER / f"v1-{name}.bin"


def sum_of(file: Path) -> str:
    return f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (_, message) in SAMPLES.items():
        file = golden_file(name)
        if not file.exists():
            file.write_bytes(codec.encode(message, REVISION))
            with SUMS.open("a") as sums:
                sums.write(sum_of(file) + "\n")
            print("wrote", file.name)


if __name__ == "__main__":
    main()
