"""All hostile servers at once, plain and TLS, beside good ones: nothing is lost, and little memory is taken."""

import asyncio
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.web.certificates import certificates
from tests.fetcher.hostile import Hostile, bomb, hostile_server, html
from tests.fetcher.rig import CLIENTS
from tests.fetcher.test_fetcher_hostile import CASES

HOSTS = [f"127.7.{number // 100}.{1 + number % 100}" for number in range(300)]
BOMBS = {encoding: bomb(64, encoding) for encoding in ("gzip", "br", "zstd", "gzip, gzip")}
PEAK = 300 * 1024  # kB


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory where Linux shows it")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_storm_of_hostile_servers_costs_no_good_page_and_little_memory(client: str, tmp_path: Path) -> None:
    trusted = certificates(tmp_path, *(f"IP:{host}" for host in HOSTS))
    async with hostile_server() as plain, hostile_server(tls=trusted.server()) as secure:
        during = _tasks(plain, secure)
        after = [(url, reason) for url, reason in during if not reason]
        wanted = during + after
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fetcher.storm", str(tmp_path), client),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "SSL_CERT_FILE": str(trusted.authority)},
        )
        out, _ = await process.communicate(
            "\n\n".join("\n".join(url for url, _ in part) for part in (during, after)).encode()
        )
        assert process.returncode == 0
    found = json.loads(out)
    assert found["results"] == len(wanted), "each task has its result, and one only"
    differing = Counter(
        (url.partition("/p")[0].rpartition("/")[2], tuple(outcome), reason)
        for (url, reason), outcome in zip(wanted, found["outcomes"], strict=True)
        if outcome != (["Failed", reason] if reason else ["Fetched", ""])
    )
    assert not differing
    assert found["pages"] == [number for number, (_, reason) in enumerate(wanted) if not reason]
    assert found["peak_kb"] < PEAK


def _tasks(plain: Hostile, secure: Hostile) -> list[tuple[str, str]]:
    """URL and the reason it must fail for, none for a good page; good and bad ones mixed, a host each."""
    for server in (plain, secure):
        for encoding, body in BOMBS.items():
            server.routes[f"/bomb/{encoding.replace(', ', '-')}"] = html(f"Content-Encoding: {encoding}", body=body)
    hosts, tasks = iter(HOSTS), []
    for _ in range(3):
        for path, reasons in CASES.items():
            for server in (plain, secure):
                tasks.append((server.url(path.replace(", ", "-"), next(hosts)), *reasons))
                tasks.append((server.url("/gzip", next(hosts)), ""))
    return [(url, reason) for url, reason in tasks]
