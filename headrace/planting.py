"""Links for a crawl, running or about to: seeds, and what the index has to be asked again."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.compose import Opened
from headrace.seeding import Seeder, need_contact
from headrace.workspace import Workspace
from headrace_schemas.messages import Link
from headrace_schemas.settings import Settings
from headrace_schemas.urls import host_of

if TYPE_CHECKING:
    from headrace_storer.store import Store
    from headrace_storer.views import KnownPage


async def plant(
    opened: Opened,
    settings: Settings,
    workspace: Workspace,
    seeds: list[str],
    *,
    refresh: bool = False,
    retry_failed: bool = False,
    publish: bool = True,
) -> int:
    """Adds seeds to a crawl; its scope grows by them first. `publish`: the other crawl-wide settings are wanted as they
    are here, which a process that began the crawl long ago cannot say. → links sent."""
    need_contact(settings, map(host_of, seeds), opened.desired.now.settings.scope_mode)
    if refresh or retry_failed:
        await _end_what_is_complete(opened)
    control = await opened.desired.begin(settings if publish else None, seeds)
    seeder = Seeder(opened.streams, settings, control)
    count = await ask_again(seeder, settings, workspace, control.run, refresh=refresh, retry_failed=retry_failed)
    count += await seeder.seeds(seeds)
    await opened.desired.seeded()
    return count


async def _end_what_is_complete(opened: Opened) -> None:
    """Nobody else says of a fleet that its run is over, and within one run no URL is asked for again twice, and no host
    that was given up is tried."""
    done, _ = await opened.scanner.twice()
    if done:
        await opened.desired.completed()


async def ask_again(
    seeder: Seeder,
    settings: Settings,
    workspace: Workspace,
    run: int,
    *,
    refresh: bool,
    retry_failed: bool = False,
    own_store: bool = False,
) -> int:
    """Refresh and retry are queries over the index (design [21]): the frontier keeps neither. `own_store`: the store is
    in this workspace, even if nothing is left of it; else it may be on another machine.

    These links go in before the seeds: a running frontier takes a URL from whatever link comes first, and what the
    seeds' pages link to has no validators."""
    if not (refresh or retry_failed):
        return 0
    from headrace_storer.durable import NoSync
    from headrace_storer.index import open_index
    from headrace_storer.store import Store

    store = Store(workspace.root, NoSync())
    known_store = store if own_store or store.is_here else None
    index, count = open_index(settings, workspace.root, create=True), 0
    try:
        if refresh:
            count += await seeder.links(_asked_again(index.known_bodies(), run, known_store), "refresh")
        if retry_failed:
            count += await seeder.links(_asked_again(index.failed(), run, None), "retry")
    finally:
        index.close()
    return count


def _asked_again(known: "Iterable[KnownPage]", run: int, store: "Store | None") -> Iterable[Link]:
    """Without validators where the body is lost: "not modified" would not bring it back."""
    for page in known:
        link = Link(page.url, page.key, page.depth, page.referrer, again=run)
        if store is None or store.has(page.sha256):
            link = replace(link, etag=page.etag, last_modified=page.last_modified)
        yield link
