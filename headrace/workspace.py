"""The one folder that holds everything of a crawl, and the names in it that scripts rely on."""

from dataclasses import dataclass
from pathlib import Path

from headrace.invocation import how_to
from headrace_schemas.errors import UsageError


@dataclass(frozen=True)
class Workspace:
    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def socket(self) -> Path:
        """Where a running `crawl` listens for `pause`, `status` and the like."""
        return self.root / "control.sock"

    @property
    def pause_file(self) -> Path:
        return self.root / "pause"

    @property
    def stop_file(self) -> Path:
        return self.root / "stop"

    def metrics(self, run: int, instance: str) -> Path:
        """`instance`: the slot of a process that is not alone here."""
        return self.root / "logs" / f"metrics-{run}{'-' if instance else ''}{instance}.csv"

    @property
    def exists(self) -> bool:
        return self.state.is_dir()

    def make(self) -> None:
        self._must_be_a_folder()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.state.mkdir(exist_ok=True)
        except OSError as error:
            raise UsageError(f"the workspace {self.root} cannot be made: {error.strerror}") from None

    def _must_be_a_folder(self) -> None:
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"the workspace {self.root} is a file; it is to be a folder")

    def must_exist(self) -> None:
        self._must_be_a_folder()
        if not self.exists:
            raise UsageError(f"no crawl in {self.root}: start one with `{how_to('crawl URL', self.root)}`")
