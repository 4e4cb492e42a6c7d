"""`headrace policy`: what would be crawled, and which rule decides."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load
from headrace_schemas.errors import UsageError

policy = typer.Typer(help="What would be crawled, and which rule decides.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(policy, name="policy", rich_help_panel=None)


@policy.command(epilog="Example: headrace policy check https://example.org/a --seed https://example.org/")
def check(
    urls: Annotated[list[str], typer.Argument(metavar="URL...")],
    seed: Annotated[
        list[str] | None, typer.Option(help="Judge as if this were a seed; default: the crawl in the workspace.")
    ] = None,
    depth: Annotated[int, typer.Option(help="As if found this many links away from a seed.")] = 0,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Would these URLs be crawled, which rule decided, and as what kind of page? Asks nothing of the web; robots.txt is
    not looked at."""
    from headrace.judging import crawl_settings, traits
    from headrace_frontier.policy import Policy
    from headrace_runtime.config_checks import together
    from headrace_schemas.urls import BadUrl, as_found

    if depth < 0:
        raise UsageError(f"--depth {depth}: a seed is at depth 0, and nothing is nearer")
    settings, _ = load(config, set_)
    if wrong := together(settings):
        raise UsageError(wrong)
    judge = Policy(crawl_settings(settings, workspace, seed or []))
    for raw in urls:
        try:
            url = as_found(raw)
        except BadUrl as error:
            print(f"deny   {raw}  ({error.reason}: not a URL that can be fetched)")
            continue
        verdict = judge.judge(url, depth)
        if verdict.allowed:
            print(f"allow  {url}  ({verdict.rule})\n       {traits(judge, url, depth)}")
        else:
            print(f"deny   {url}  ({verdict.reason}: {verdict.rule})")


@policy.command(epilog="Example: headrace policy robots robots.txt --agent headrace https://example.org/private/")
def robots(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A robots.txt; - for standard input.")],
    urls: Annotated[list[str], typer.Argument(metavar="URL...")],
    agent: Annotated[str, typer.Option(metavar="NAME", help="Product token to judge for.")] = "headrace",
) -> None:
    """A line each: allow or deny, the URL, the rule of that robots.txt that decided. Then, if it asks for one, a line
    with the delay in seconds."""
    from headrace_frontier.robots import RobotsRules
    from headrace_schemas.urls import BadUrl, as_found

    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    rules = RobotsRules.parse(text, agent)
    for raw in urls:
        try:
            url = as_found(raw)
        except BadUrl as error:
            raise UsageError(f"{raw!r} is no http(s) URL ({error.reason})") from None
        verdict = rules.judge(url)
        print(f"{'allow' if verdict.allowed else 'deny'}\t{url}\t{verdict.rule}")
    if rules.delay is not None:
        print(f"delay\t{rules.delay.seconds:g}\t{rules.delay.rule}")
