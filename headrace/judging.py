"""The crawl-wide settings a policy command judges by: those of the crawl in the workspace, or as if freshly seeded."""

import asyncio
from pathlib import Path

from headrace.compose import opened
from headrace.desired import crawl_settings_of
from headrace.seeding import read_seeds
from headrace.workspace import Workspace
from headrace_schemas.messages import CrawlSettings
from headrace_schemas.settings import Settings


def crawl_settings(settings: Settings, workspace: Path, seeds: list[str]) -> CrawlSettings:
    place = Workspace(workspace)
    found = read_seeds([*settings.seeds, *seeds], None)
    if found or not (place.exists or settings.kafka):
        return crawl_settings_of(settings, CrawlSettings(), found)
    return asyncio.run(_current(settings, place))


async def _current(settings: Settings, workspace: Workspace) -> CrawlSettings:
    async with opened(settings, workspace, create=False) as parts:
        return parts.desired.now.settings
