"""What a crawl wants is kept by the crawl: a command that says less must not take it back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.compose import Opened, opened
from headrace.desired import crawl_settings_of
from headrace.planting import plant
from headrace.workspace import Workspace
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import CrawlSettings
from headrace_schemas.settings import PolitenessSettings, ScopeSettings, Settings

SEEDS = ["http://www.a.test/", "http://b.test/x"]


def scoped(mode: str, **more: object) -> Settings:
    return Settings(scope=ScopeSettings(mode=mode, **more))  # type: ignore[arg-type]


@pytest.fixture
async def crawl(tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened(Settings(), Workspace(tmp_path / "ws"), create=True) as parts:
        yield parts


@pytest.mark.parametrize("mode", ["host", "domain", "all"])
async def test_a_crawl_stays_in_the_scope_it_was_begun_with_until_another_is_given(crawl: Opened, mode: str) -> None:
    begun = await crawl.desired.begin(scoped(mode), SEEDS)
    assert await crawl.desired.begin(Settings(), []) == begun
    assert not await crawl.desired.adjust(Settings())
    again = await crawl.desired.begin(Settings(), SEEDS)
    assert (again.revision, again.settings.scope_mode) == (begun.revision, mode)


async def test_a_crawl_is_begun_by_domain_if_nothing_is_said(crawl: Opened) -> None:
    settings = (await crawl.desired.begin(Settings(), SEEDS)).settings
    assert (settings.scope_mode, settings.scope_roots) == ("domain", ("a.test", "b.test"))


async def test_another_scope_begins_with_the_hosts_of_all_seeds_so_far(crawl: Opened) -> None:
    roots = {"host": ("b.test", "c.test", "www.a.test"), "domain": ("a.test", "b.test", "c.test"), "all": ()}
    await crawl.desired.begin(scoped("all"), SEEDS)
    await crawl.desired.begin(Settings(), ["http://c.test/"])
    for mode in ("host", "domain", "all", "domain", "host"):
        settings = (await crawl.desired.begin(scoped(mode), [])).settings
        assert (settings.scope_mode, settings.scope_roots) == (mode, roots[mode])


async def test_a_scope_in_which_nothing_would_lie_is_an_error_that_says_what_to_do(crawl: Opened) -> None:
    before = await crawl.desired.begin(scoped("all"), [])
    for change in (crawl.desired.begin(scoped("host"), []), crawl.desired.adjust(scoped("host"))):
        with pytest.raises(UsageError, match="name the seeds again"):
            await change
    assert crawl.desired.now == before
    listed = await crawl.desired.begin(scoped("host", hosts=("c.test",)), [])
    assert (listed.settings.scope_mode, listed.settings.scope_roots) == ("host", ())
    assert (await crawl.desired.begin(scoped("domain"), SEEDS[:1])).settings.scope_roots == ("a.test",)


async def test_a_seed_to_a_running_crawl_adds_to_its_scope_and_changes_nothing_else(
    crawl: Opened, tmp_path: Path
) -> None:
    started = Settings(politeness=PolitenessSettings(delay=3.0), contact="me@a.test")
    await crawl.desired.begin(started, SEEDS[:1])
    await crawl.desired.adjust(Settings(politeness=PolitenessSettings(delay=7.0)))  # SIGHUP
    before = crawl.desired.now
    assert await plant(crawl, started, Workspace(tmp_path / "ws"), SEEDS[1:], publish=False) == 1
    after = crawl.desired.now
    grown = replace(before.settings, scope_roots=("a.test", "b.test"), seed_hosts=("b.test", "www.a.test"))
    assert (after.revision, after.settings) == (before.revision + 1, grown)


def test_a_crawl_of_an_older_release_knows_only_its_roots() -> None:
    was = CrawlSettings(scope_mode="host", scope_roots=("www.a.test",))
    assert crawl_settings_of(scoped("domain"), was, []).scope_roots == ("a.test",)
    assert crawl_settings_of(Settings(), was, []).scope_roots == ("www.a.test",)
