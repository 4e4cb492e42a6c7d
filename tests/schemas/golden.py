"""Writes the golden files that are missing: `python -m tests.schemas.golden`. One that is there is never touched: it
stands for the messages that wait in somebody's topics."""

from pathlib import Path

from headrace_schemas import codec
from tests.schemas.samples import SAMPLES

FOLDER = Path(__file__).parent / "golden"
REVISION = 12


def golden_file(name: str) -> Path:
    return FOLDER / f"v1-{name}.bin"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (_, message) in SAMPLES.items():
        if not golden_file(name).exists():
            golden_file(name).write_bytes(codec.encode(message, REVISION))
            print("wrote", golden_file(name).name)


if __name__ == "__main__":
    main()
