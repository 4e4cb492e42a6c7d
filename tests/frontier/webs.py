"""Random little webs, with everything in them that goes wrong on the real one."""

import random

from headrace_schemas.messages import Deferred, Failed, Fetched, Redirected, Refused, Robots
from tests.frontier.world import Page, failing, key_of, page, redirect

GOOD = Fetched(200, 10, "ab")


def tangled(seed: int, hosts: int = 6, pages: int = 12) -> dict[str, Page]:
    """Hosts that link to each other; some pages fail, redirect, loop, are deferred; some hosts are dead or mute."""
    dice = random.Random(seed)
    names = [f"http://h{n}.test" for n in range(hosts)]
    urls = [f"{name}/{n}" for name in names for n in range(pages)]
    web = {url: _page(dice, url, urls) for url in urls}
    for name in names:
        web[f"{name}/robots.txt"] = _robots(dice)
    web[f"{names[0]}/0"] = page(*dice.sample(urls, 20))  # no web dies at its first page
    web[f"{names[0]}/robots.txt"] = Page((Robots(404),))
    if hosts > 2:
        for n in range(pages):
            web[f"{names[-1]}/{n}"] = Page((failing(0, "connect"),))  # it has a robots.txt, and then it dies
        web[f"{names[-1]}/robots.txt"] = Page((Robots(404),))
    return web


def _page(dice: random.Random, url: str, urls: list[str]) -> Page:
    links = tuple(dice.sample(urls, dice.randint(1, 6)))
    roll = dice.random()
    if roll < 0.55:
        return page(*links)
    if roll < 0.65:
        return redirect(dice.choice(urls))
    if roll < 0.70:
        return Page((Redirected(301, url + "/", key_of(url)),), links)
    if roll < 0.78:
        return Page((failing(503, retry_after=dice.choice((0.0, 2.0))), GOOD), links)
    if roll < 0.84:
        return Page((Deferred(0.0, dice.choice(("stale", "wait", "shutdown"))), GOOD), links)
    if roll < 0.90:
        return Page((Failed("http", 404),))
    if roll < 0.95:
        return Page((failing(500),))
    return Page((Refused("address"),))


def _robots(dice: random.Random) -> Page:
    roll = dice.random()
    if roll < 0.5:
        return Page((Robots(404),))
    if roll < 0.75:
        return Page((Robots(200, b"User-agent: *\nDisallow: /3\nDisallow: /1$\n"),))
    if roll < 0.85:
        return Page((failing(503), Robots(200, b"")))
    if roll < 0.95:
        return Page((failing(0, "dns"),))
    return Page((Refused("address"),))
