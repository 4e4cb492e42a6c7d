"""Changing the desired state: the only writer of `crawl.control`. Read, change, publish, acknowledged."""

from msgspec.structs import replace

from headrace_runtime.streams.seams import Send, Streams, Table
from headrace_schemas import codec
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import Control, CrawlSettings, Mode
from headrace_schemas.settings import Settings
from headrace_schemas.topics import CONTROL_KEY
from headrace_schemas.urls import host_of, registrable_domain


class Desired:
    """`control` is the table of `crawl.control`, kept by the caller."""

    def __init__(self, streams: Streams, control: Table) -> None:
        self._streams, self._table = streams, control

    @property
    def now(self) -> Control:
        row = self._table.rows.get(CONTROL_KEY)
        return codec.decode("crawl.control", row) if row else Control(0, CrawlSettings(), run=0)

    async def begin(self, settings: Settings | None, seeds: list[str]) -> Control:
        """The crawl as `settings` want it (None: as it is wanted already), before the first seed is sent. A run id is
        new only when the last run completed: a settled URL is asked for again once per run id."""
        await self._table.refresh()
        was = self.now
        wanted = _wanted(settings, was, seeds) if settings else _grown(was.settings, seeds)
        changed = was.revision == 0 or wanted != was.settings
        return await self._write(
            Control(
                revision=was.revision + changed,
                settings=wanted,
                mode="paused" if was.mode == "paused" and was.revision else "running",
                run=was.run + 1 if was.completed_run == was.run else was.run,
                completed_run=was.completed_run,
                seeded_run=was.completed_run,
            )
        )

    def bounded(self, settings: Settings, seeds: list[str]) -> Settings:
        """A crawl of any host, as a demo is, does not take up the seed of another crawl without being told so: that
        would be the whole web from there on. After a run that is complete such a seed begins by the default."""
        was = self.now
        known = {*was.settings.seed_hosts, *was.settings.scope_roots}
        if settings.scope.mode or not was.revision or was.settings.scope_mode != "all":
            return settings
        new = sorted(set(map(host_of, seeds)) - known)
        if not new:
            return settings
        if was.completed_run < was.run:
            raise UsageError(
                f"{new[0]} is no seed of the crawl in this workspace, which follows links to any host and is not "
                "complete: say --scope all to add it, --scope domain to leave all others, or use another --workspace"
            )
        return replace(settings, scope=replace(settings.scope, mode=CrawlSettings().scope_mode))

    async def adjust(self, settings: Settings) -> bool:
        """The crawl-wide settings as they are now, its seeds kept. → whether anything changed."""
        await self._table.refresh()
        wanted = _wanted(settings, self.now, [])
        if wanted == self.now.settings:
            return False
        await self._write(replace(self.now, revision=self.now.revision + 1, settings=wanted))
        return True

    async def seeded(self) -> None:
        """Every link of this run was acknowledged."""
        await self._write(replace(self.now, seeded_run=self.now.run))

    async def completed(self) -> None:
        await self._write(replace(self.now, completed_run=self.now.run))

    async def mode(self, mode: Mode) -> Control:
        await self._table.refresh()
        return await self._write(replace(self.now, mode=mode))

    async def _write(self, control: Control) -> Control:
        await self._streams.publish([Send("crawl.control", 0, codec.encode(control, control.revision), CONTROL_KEY)])
        await self._table.refresh()
        return control


def _wanted(settings: Settings, was: Control, seeds: list[str]) -> CrawlSettings:
    wanted = crawl_settings_of(settings, was.settings, seeds)
    somewhere = wanted.scope_mode == "all" or wanted.scope_roots or wanted.scope_hosts or wanted.scope_domains
    if was.revision and wanted.scope_mode != was.settings.scope_mode and not somewhere:
        raise UsageError(
            f"scope.mode {wanted.scope_mode}: this crawl was begun with {was.settings.scope_mode} and knows no host of "
            "its seeds, so nothing would be in scope: name the seeds again"
        )
    return wanted


def crawl_settings_of(settings: Settings, was: CrawlSettings, seeds: list[str]) -> CrawlSettings:
    """The scope grows with every seed, and its mode stays until another is given: a crawl resumed in fewer words must
    not turn its own backlog away. Everything else is what this command was told."""
    told = CrawlSettings(
        scope_mode=settings.scope.mode or was.scope_mode,
        seed_hosts=was.seed_hosts or was.scope_roots,
        max_pages=settings.limits.max_pages,
        max_depth=settings.limits.max_depth,
        delay=settings.politeness.delay,
        agent=settings.fetch.agent,
        max_backlog=settings.limits.max_backlog,
        scope_hosts=settings.scope.hosts,
        scope_domains=settings.scope.domains,
        scope_deny_hosts=settings.scope.deny_hosts,
        scope_allow=settings.scope.allow,
        scope_deny=settings.scope.deny,
        page_types=settings.scope.page_types,
        follow_only=settings.scope.follow_only,
        group=settings.scope.group,
        low_priority=settings.scope.low_priority,
        host_pages=settings.limits.host_pages,
        host_bytes=settings.limits.host_bytes,
        group_pages=settings.limits.group_pages,
        polite_hosts=settings.politeness.hosts,
        max_body=settings.fetch.max_bytes,
    )
    return _grown(told, seeds)


def _grown(settings: CrawlSettings, seeds: list[str]) -> CrawlSettings:
    mode = settings.scope_mode
    hosts = {*(settings.seed_hosts or settings.scope_roots), *map(host_of, seeds)}
    root = registrable_domain if mode == "domain" else str
    roots = () if mode == "all" else tuple(sorted(set(map(root, hosts))))
    return replace(settings, scope_roots=roots, seed_hosts=tuple(sorted(hosts)))
