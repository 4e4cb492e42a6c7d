"""All hostile servers at once, plain and TLS, beside good ones: nothing is lost, and little memory is taken."""

import asyncio
import gzip
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from benchmarks.web.certificates import certificates
from tests.fetcher.hostile import Hostile, Reply, Seen, bomb, hostile_server, html
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
        found = await _storm(
            tmp_path,
            {
                "client": client,
                "total_timeout": 7.0,
                "read_timeout": 4.0,
                "max_bytes": 1_000_000,
                "min_rate": 0,  # or on a busy machine a drip would meet that before its deadline
            },
            [[url for url, _ in part] for part in (during, after)],
            SSL_CERT_FILE=str(trusted.authority),
        )
    assert found["results"] == len(wanted), "each task has its result, and one only"
    differing = Counter(
        (url.partition("/p")[0].rpartition("/")[2], tuple(outcome), reason)
        for (url, reason), outcome in zip(wanted, found["outcomes"], strict=True)
        if outcome != (["Failed", reason] if reason else ["Fetched", ""])
    )
    assert not differing
    assert found["pages"] == [number for number, (_, reason) in enumerate(wanted) if not reason]
    assert found["peak_kb"] < PEAK


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory where Linux shows it")
async def test_decoders_with_large_windows_cost_little_memory_under_the_caps_that_are_set_by_default(
    tmp_path: Path,
) -> None:
    """Nothing comes out of the inner layer, so that there is no body to count, but both have seen eight megabytes; half
    of the servers are silent before the last bytes."""
    nothing = b"\x0c" + b"\x06" * (8 * 1024 * 1024)  # brotli: empty metadata, a window of 4 MiB
    skipped = b"\x50\x2a\x4d\x18" + (8 * 1024 * 1024).to_bytes(4, "little") + bytes(8 * 1024 * 1024)
    page = b"<p>some words</p>" * (9 * 1024 * 1024 // 17)
    bodies = {
        "br, br": brotli.compress(nothing, lgwin=24, quality=5),
        "zstd, br": brotli.compress(skipped, lgwin=24, quality=5),
        "br, zstd": zstandard.compress(nothing),
        "br": brotli.compress(page, lgwin=24, quality=5),
        "zstd": zstandard.compress(page),
        "gzip, br": brotli.compress(bomb(9, "gzip"), lgwin=24, quality=5),
    }
    async with hostile_server() as server:
        urls = []
        for number, host in enumerate(HOSTS):
            encoding = list(bodies)[number % len(bodies)]
            path = f"/{encoding.replace(', ', '-')}/{'silent' if number % 4 < 2 else 'sent'}"
            server.routes[path] = (_silent_at_last if number % 4 < 2 else _sent)(encoding, bodies[encoding])
            urls.append(server.url(path, host))
        found = await _storm(tmp_path, {"total_timeout": 8.0, "read_timeout": 4.0}, [urls, []])
    assert found["results"] == len(urls)
    assert found["peak_kb"] < PEAK


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads its memory where Linux shows it")
async def test_large_bodies_that_never_end_cost_little_memory_under_the_caps_that_are_set_by_default(
    tmp_path: Path,
) -> None:
    some = os.urandom(9_900_000)
    bodies = {
        "identity": some,
        "gzip": gzip.compress(some, 1),
        "br": brotli.compress(some, lgwin=24, quality=1),
        "zstd": zstandard.compress(some),
    }
    async with hostile_server() as server:
        urls = []
        for number, host in enumerate(HOSTS[:160]):
            encoding, silent = list(bodies)[number % 4], number % 8 < 4
            path = f"/{encoding}/{'silent' if silent else 'gone'}"
            server.routes[path] = (_silent_at_last if silent else _gone_at_last)(encoding, bodies[encoding])
            urls.append(server.url(path, host))
        found = await _storm(tmp_path, {"total_timeout": 8.0, "read_timeout": 4.0}, [urls, []])
    assert found["results"] == len(urls)
    assert not found["pages"]
    assert found["peak_kb"] < PEAK


async def _storm(folder: Path, fetch: dict[str, Any], parts: list[list[str]], **environment: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fetcher.storm", str(folder), json.dumps(fetch)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    out, _ = await process.communicate("\n\n".join("\n".join(part) for part in parts).encode())
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def _sent(encoding: str, body: bytes) -> Reply:
    return html(f"Content-Encoding: {encoding}", body=body)


def _gone_at_last(encoding: str, body: bytes) -> Reply:
    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> None:
        kind = f"Content-Type: text/html\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}"
        writer.write(f"HTTP/1.1 200 OK\r\n{kind}\r\n\r\n".encode())
        writer.write(body[:-2])
        await writer.drain()

    return reply


def _silent_at_last(encoding: str, body: bytes) -> Reply:
    gone = _gone_at_last(encoding, body)

    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> None:
        await gone(writer, seen)
        await asyncio.sleep(30)

    return reply


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
