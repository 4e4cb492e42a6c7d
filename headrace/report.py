"""What a crawl says to a person before it starts and after it ends."""

from typing import TextIO

from headrace import __version__
from headrace.invocation import how_to
from headrace.status import Status
from headrace.workspace import Workspace
from headrace_fetcher.headers import user_agent
from headrace_schemas.messages import Control
from headrace_schemas.settings import Settings


def print_banner(settings: Settings, workspace: Workspace, control: Control, address: str, out: TextIO) -> None:
    scope = control.settings
    roots = ", ".join(scope.scope_roots[:5]) + (" …" if len(scope.scope_roots) > 5 else "")
    if beside := len(scope.scope_hosts) + len(scope.scope_domains):
        roots += f", and {beside} of scope.hosts and scope.domains"
    limits = [f"depth {scope.max_depth}"] + ([f"{scope.max_pages:,} pages"] if scope.max_pages else [])
    lines = [
        ("user agent", user_agent(settings.fetch.agent, __version__, settings.contact)),
        ("scope", "any host" if scope.scope_mode == "all" else f"the seeds' {scope.scope_mode}s: {roots}"),
        ("limits", ", ".join(limits)),
        ("delay", f"{scope.delay:g} s between two requests to a host, or what its robots.txt asks for"),
        ("robots.txt", "obeyed (RFC 9309); a host whose robots.txt cannot be had is not crawled"),
        ("topics", settings.streams.url),
        ("pages go to", str(workspace.root)),
    ]
    if address:
        lines.append(("metrics", f"http://{address}/metrics"))
    if control.mode == "paused":
        lines.append(("paused", f"`{how_to('resume', workspace.root)}` goes on"))
    print(f"headrace {__version__}", file=out)
    for name, value in lines:
        print(f"  {name:<12} {value}", file=out)
    out.flush()


def print_summary(status: Status, workspace: Workspace, seconds: float, how: str, out: TextIO) -> None:
    word = how or ("complete" if status.complete else "stopped")
    print(
        f"\n{word}: {status.fetched:,} pages fetched, {status.redirected:,} redirected, {status.failed:,} failed, "
        f"{status.refused:,} refused, {status.queued + status.in_flight:,} still queued; {seconds:.1f} s",
        file=out,
    )
    for title, table in (
        ("failed", status.failed_by),
        ("refused", status.refused_by),
        ("out of scope", status.rejected),
    ):
        if table:
            print(f"  {title}: " + ", ".join(f"{name} {n:,}" for name, n in table.items()), file=out)
    if status.refused_by.get("address"):
        print("  not public:         addresses that were refused are opened with --allow-private CIDR", file=out)
    if not status.complete:
        print("  go on:              run the same command again", file=out)
    print(f"  look at the pages:  {how_to('pages', workspace.root)}", file=out)
    print(f"  one of them:        {how_to('show URL', workspace.root)}", file=out, flush=True)
