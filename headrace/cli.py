"""The command line. Each command is a thin function in `commands/`; errors become one line and an exit code."""

import os
import sys
from typing import Annotated

import typer

from headrace import __version__
from headrace.commands import control, crawl, explain, frontier, look, policy, politeness, replay, settings, topics
from headrace_runtime.process import report
from headrace_schemas.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    help="A polite, restartable, horizontally scalable web crawler.",
    epilog="Start here: headrace crawl https://example.org --contact you@example.org",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (crawl, control, explain, look, policy, politeness, frontier, replay, settings, topics):
    module.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A polite, restartable, horizontally scalable web crawler."""


def main() -> None:
    try:
        app()
    except BrokenPipeError:  # `headrace pages | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains once more
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except (HeadraceError, OSError) as error:
        sys.exit(report(error))
