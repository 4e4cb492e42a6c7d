"""The smallest crawler there is: it shares no code with the model it is compared with."""

import asyncio
import hashlib
from urllib.parse import urldefrag, urljoin

import aiohttp
from lxml import html
from yarl import URL


class Visited(dict[str, tuple[int, str]]):
    """URL → (final status, sha256 of a 200's body)."""


async def walk(seeds: list[str], *, disallowed: str = "\0", tries: int = 2) -> Visited:
    """Follows every link and redirect but `mailto:`, and paths that start with `disallowed`; asks again after a 5xx."""
    visited, seen, todo = Visited(), set(seeds), list(seeds)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session:
        while todo:
            batch, todo = todo[:40], todo[40:]
            answers = await asyncio.gather(*(_visit(session, url, tries) for url in batch))
            for url, (status, body, found) in zip(batch, answers, strict=True):
                visited[url] = status, hashlib.sha256(body).hexdigest() if status == 200 else ""
                for link in found:
                    path = "/" + link.partition("//")[2].partition("/")[2]
                    wanted = link.startswith("http") and not path.startswith(disallowed)
                    if wanted and link not in seen:
                        seen.add(link)
                        todo.append(link)
    return visited


async def _visit(session: aiohttp.ClientSession, url: str, tries: int) -> tuple[int, bytes, list[str]]:
    for _ in range(tries):
        async with session.get(URL(url, encoded=True), allow_redirects=False) as answer:
            body = await answer.read()
        if answer.status < 500:
            break
    if "Location" in answer.headers:
        return answer.status, body, [urljoin(url, answer.headers["Location"])]
    if answer.status != 200 or answer.content_type != "text/html":
        return answer.status, body, []
    anchors = html.fromstring(body.decode()).iter("a")
    return answer.status, body, [urldefrag(urljoin(url, a.get("href", "")))[0] for a in anchors]
