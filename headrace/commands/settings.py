"""`headrace configure` and `headrace config`."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load
from headrace.workspace import Workspace
from headrace_runtime import config as configuration
from headrace_schemas.errors import UsageError

config_app = typer.Typer(help="Look at the settings in force.", no_args_is_help=True)

_SEEDS = "# One URL a line; lines that start with # are left out.\n# https://example.org/\n"


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: headrace configure my-crawl && cd my-crawl && headrace crawl")(configure)
    app.add_typer(config_app, name="config")


def configure(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to write them.")] = Path(),
) -> None:
    """Write a commented crawl.yaml and seeds.txt, and make the workspace. Never overwrites."""
    files = {folder / "crawl.yaml": configuration.template(), folder / "seeds.txt": _SEEDS}
    for file in files:
        if file.exists():
            raise UsageError(f"{file} is there already; delete it first, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    Workspace(folder / "workspace").make()
    print(f"wrote {', '.join(map(str, files))}")
    print("next: name your seeds and your contact there, then `headrace crawl` in that folder")


@config_app.command(epilog="Example: headrace config show --set politeness.delay=2")
def show(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """Every setting in force, and where it came from."""
    settings, sources = load(config, set_)
    print(configuration.show(settings, sources), end="")


@config_app.command(epilog="Example: headrace config check --config crawl.yaml")
def check(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """Exit 0 if the configuration is right, 2 with one line if not."""
    from headrace.seeding import right_contact

    settings, _ = load(config, set_)
    right_contact(settings)
    print("ok")
