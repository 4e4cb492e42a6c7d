"""`headrace politeness prove`: the gaps between requests, from the history in the index; neither engine nor lock."""

import heapq
import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.moments import moment
from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load
from headrace_schemas.errors import UsageError

if TYPE_CHECKING:
    from headrace_storer.proof import Gap, HostProof

_ROWS = 20  # hosts shown to people who do not ask for all

politeness = typer.Typer(help="How gently the hosts were asked.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(politeness, name="politeness", rich_help_panel=None)


@politeness.callback()
def _group() -> None:
    """How gently the hosts were asked."""  # keeps `prove` a command of its own while it is the only one


@politeness.command(epilog="Example: headrace politeness prove --host example.org --since 2026-01-31T12:00")
def prove(
    host: Annotated[str | None, typer.Option(metavar="H", help="Only this host.")] = None,
    since: Annotated[str | None, typer.Option(metavar="T", help="Only requests at or after this time.")] = None,
    slack: Annotated[float, typer.Option(metavar="S", help="Seconds a gap may be shorter than owed.")] = 0.0,
    all_: Annotated[bool, typer.Option("--all", help=f"Every host, not only the {_ROWS} with least to spare.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object, with every host.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Was every host left alone for as long as it was owed? Start to start, robots.txt and redirects included.

    Exit code 0: no gap is shorter than owed. 1: some are, or there is nothing to prove it by.
    """
    from headrace_storer.index import open_index
    from headrace_storer.proof import prove as proofs

    if not (math.isfinite(slack) and slack >= 0):
        raise UsageError(f"--slack {slack}: wants seconds, 0 or more")
    settings, _ = load(config, set_)
    after = 0.0 if since is None else moment(since, "--since")
    index = open_index(settings, workspace, create=False)
    total = _Total()
    try:
        found = total.counted(proofs(index.hosts_asked(host=host.lower() if host else None, since=after), slack))
        worst = sorted(found, key=_order) if all_ or json_ else heapq.nsmallest(_ROWS, found, key=_order)
    finally:
        index.close()
    if json_:
        print(json.dumps(total.asdict() | {"slack": slack, "hosts": [_object(proof) for proof in worst]}))
    elif not total.requests:
        print(_nothing(workspace, host, since))
    else:
        _print(worst, total)
    sys.exit(0 if total.requests and not total.short else 1)


class _Total:
    """Counts what passes by, so that no more hosts are held than are shown."""

    def __init__(self) -> None:
        self.hosts = self.requests = self.short = 0

    def counted(self, proofs: Iterable["HostProof"]) -> Iterator["HostProof"]:
        for proof in proofs:
            self.hosts += 1
            self.requests += proof.requests
            self.short += proof.short
            yield proof

    def asdict(self) -> dict[str, Any]:
        return {"host_count": self.hosts, "request_count": self.requests, "short_gaps": self.short}


def _order(proof: "HostProof") -> tuple[float, str]:
    return proof.share, proof.host


def _nothing(workspace: Path, host: str | None, since: str | None) -> str:
    which = (f" to {host}" if host else "") + (f" since {since}" if since else "")
    return f"no request{which} is in the history of {workspace}: nothing is proved"


def _print(worst: list["HostProof"], total: _Total) -> None:
    print(f"{'requests':>9}  {'gap':>11}  {'owed':>9}  {'short':>6}  host")
    for proof in worst:
        gap = proof.tightest
        seconds, owed = ("–", "–") if gap is None else (f"{gap.seconds:,.3f} s", f"{gap.owed:,.3f} s")
        print(f"{proof.requests:>9,}  {seconds:>11}  {owed:>9}  {proof.short:>6,}  {proof.host}")
        if proof.short and gap is not None:
            _print_where(gap)
    if len(worst) < total.hosts:
        print(f"… {total.hosts - len(worst):,} hosts with more to spare: --all")
    print(
        f"{_number(total.hosts, 'host')}, {_number(total.requests, 'request')}, "
        f"{_number(total.short, 'gap')} shorter than owed"
    )


def _print_where(gap: "Gap") -> None:
    from headrace_storer.views import timestamp

    for asked in (gap.before, gap.after):
        print(f"{'':>11}{timestamp(asked.at)}  {asked.kind:<7}  {asked.url}")


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _object(proof: "HostProof") -> dict[str, Any]:
    gap = proof.tightest
    fields: dict[str, Any] = {
        "host": proof.host,
        "requests": proof.requests,
        "short_gaps": proof.short,
        "smallest_gap": proof.smallest,
        "gap": None,
        "owed": None,
        "between": [],
    }
    if gap is not None:
        between = [{"at": asked.at, "kind": asked.kind, "url": asked.url} for asked in (gap.before, gap.after)]
        fields |= {"gap": gap.seconds, "owed": gap.owed, "between": between}
    return fields
