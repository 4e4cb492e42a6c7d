"""What an operator's `headrace frontier check` looks at, asserted after every unit of work."""

from headrace_frontier.audit import Audit
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.memory import MemoryState
from headrace_schemas.messages import Progress


def audit(state: MemoryState, progress: Progress | None, tuning: Tuning) -> None:
    assert list(Audit(state, tuning).differences(progress)) == []
