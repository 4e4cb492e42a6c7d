"""From the first line of the program to its exit code. Imports next to nothing, so that Ctrl-C and SIGTERM are obeyed
long before the rest is loaded."""

import os
import signal
import sys

_INTERRUPTED = 130
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    for number in _ASKED_TO_END:
        signal.signal(number, _leave)
    from headrace.app import app
    from headrace_runtime.process import report
    from headrace_schemas.errors import HeadraceError

    for number in _ASKED_TO_END:  # from now on there is something to clean up; a crawl has handlers of its own
        signal.signal(number, signal.default_int_handler)
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:  # it was closed by who started us
                sys.stdout.flush()  # at the interpreter's own end it would be too late to say what went wrong
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _hung_up()  # Click met it first, and calls it a failure
    except BrokenPipeError:
        _hung_up()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (HeadraceError, OSError) as error:
        sys.exit(report(error))


def _leave(number: int, frame: object) -> None:
    """Nothing was begun."""
    os._exit(_INTERRUPTED)


def _hung_up() -> None:
    """`headrace pages | head`: who reads has had enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains once more
    sys.exit(0)
