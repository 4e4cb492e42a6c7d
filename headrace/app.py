"""The command line as a tree: each command is a thin function in `commands/`."""

from typing import Annotated

import typer

from headrace.commands import control, crawl, explain, frontier, look, policy, politeness, replay, settings, topics

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
        from headrace import __version__

        print(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A polite, restartable, horizontally scalable web crawler."""
