"""What a policy command judges by (the crawl in the workspace, or as if freshly seeded), and what it says of a URL."""

import asyncio
from pathlib import Path

from headrace.compose import opened
from headrace.desired import crawl_settings_of
from headrace.seeding import read_seeds
from headrace.workspace import Workspace
from headrace_frontier.policy import Policy
from headrace_frontier.priority import WORDS
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


def traits(policy: Policy, url: str, depth: int) -> str:
    """What the crawl makes of a URL that it takes."""
    kind = policy.page_type(url)
    said = [f"page type {kind}", "stored" if policy.stored(kind) else "followed, not stored"]
    if group := policy.group(url):
        limits = ((policy.group_cap(kind), kind), (policy.group_total, "in all"))
        caps = [f"{cap} {what}" for cap, what in limits if cap]
        said.append(f"group {group} (at most {', '.join(caps)})" if caps else f"group {group} (no cap)")
    return ", ".join([*said, f"priority {WORDS[policy.priority(url, depth, is_seed=depth == 0)]}"])
