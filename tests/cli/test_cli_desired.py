"""What a crawl wants is kept by the crawl: a command that says less must not take it back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.compose import Opened, opened
from headrace.desired import crawl_settings_of
from headrace.workspace import Workspace
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import CrawlSettings
from headrace_schemas.settings import ScopeSettings, Settings

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


def test_a_crawl_of_an_older_release_knows_only_its_roots() -> None:
    was = CrawlSettings(scope_mode="host", scope_roots=("www.a.test",))
    assert crawl_settings_of(scoped("domain"), was, []).scope_roots == ("a.test",)
    assert crawl_settings_of(Settings(), was, []).scope_roots == ("www.a.test",)
