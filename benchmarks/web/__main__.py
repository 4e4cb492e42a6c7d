"""`python -m benchmarks.web --port 0 --log requests.jsonl …`: serves a web until SIGTERM or SIGINT."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.web.certificates import CannotMake, Certificates, of_web
from benchmarks.web.expected import expected
from benchmarks.web.log import RequestLog
from benchmarks.web.server import Connection, Web, listen
from benchmarks.web.site import Site
from benchmarks.web.spec import WebSpec, shares

_NUMBERS = (
    "seed", "hosts", "base", "pages", "size", "children", "extra", "cross", "retry_after", "revision", "hot_hosts",
    "hot_pages", "slow_hosts", "drip_hosts", "drip_rate",
)  # fmt: skip
_FRACTIONS = ("spread", "foreign", "latency_ms", "slow_ms", "crawl_delay", "changing", "twins", "files")
_SWITCHES = ("validators", "gzip", "tls")
_SHARED: dict[str, tuple[str, ...]] = {
    "errors": ("missing", "flaky", "busy"),  # `broken` only by name: it makes crawlers give hosts up
    "redirects": ("inside", "across", "chain", "slash", "order"),
    "robots": ("disallow", "delay", "missing"),  # `down` only by name: it hides whole hosts
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        spec = _spec(vars(options))
    except (ValueError, msgspec.ValidationError) as error:
        parser.error(str(error))
    if options.list:
        if not spec.port:
            parser.error("--list needs --port: it is part of every link")
        _list(spec, options.seeds)
        return 0
    folder = options.certificates or (Path(tempfile.mkdtemp(prefix="web-")) if spec.tls else None)
    try:
        made = of_web(folder, spec) if spec.tls and folder else None
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_serve(spec, options, made))
    except (OSError, CannotMake) as error:
        print(f"the web cannot be served: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1
    finally:
        if folder is not None and folder != options.certificates:
            shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.web", description="A deterministic web on loopback addresses.")
    parser.add_argument("--port", type=int, help="0: any free one (default)")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="a JSON line for every request that arrives")
    parser.add_argument("--append", action="store_true", help="keep what is in the log already")
    parser.add_argument("--spec", default="{}", help="a WebSpec as JSON; the other options change it")
    parser.add_argument("--list", action="store_true", help="print what a perfect crawl requests, and end")
    parser.add_argument("--seeds", type=int, default=1, help="with --list: front pages to start from")
    parser.add_argument("--certificates", type=Path, help="with --tls: folder where they stay, and are found again")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    for name in _NUMBERS:
        parser.add_argument(_flag(name), type=int)
    for name in _FRACTIONS:
        parser.add_argument(_flag(name), type=float)
    for name in _SWITCHES:
        parser.add_argument(_flag(name), action="store_const", const=True)
    parser.add_argument("--no-keep-alive", dest="keep_alive", action="store_const", const=False)
    for name, kinds in _SHARED.items():
        parser.add_argument(_flag(name), metavar="SHARES", help=f"0.3, or by kind: {kinds[0]}=0.1,{kinds[1]}=0.2")
    return parser


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _spec(options: dict[str, Any]) -> WebSpec:
    names = ("port", "keep_alive", *_NUMBERS, *_FRACTIONS, *_SWITCHES)
    said: dict[str, Any] = {name: options[name] for name in names if options[name] is not None}
    for name, kinds in _SHARED.items():
        if options[name] is not None:
            said[name] = shares(options[name], kinds)
    return msgspec.convert(msgspec.json.decode(options["spec"]) | said, WebSpec)


def _list(spec: WebSpec, seeds: int) -> None:
    site = Site(spec)
    for page in expected(site, [site.graph.url(host) for host in range(min(seeds, spec.hosts))]):
        sys.stdout.buffer.write(msgspec.json.encode(page) + b"\n")


async def _serve(spec: WebSpec, options: argparse.Namespace, made: Certificates | None) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, ended)
    if options.until_eof:
        loop.add_reader(sys.stdin.fileno(), _end, ended)
    log = RequestLog(options.log, append=options.append)
    # the port is in every link, so the site can be made only once there is a socket
    server, port = await listen(lambda: Connection(web), spec.port, made.server() if made else None)
    web = Web(Site(spec.at(port)), log, lambda error: _end(ended, error))
    _come_first()
    await server.start_serving()
    print(f"ready {web.site.graph.url(0)}", flush=True)
    if made:
        print(f"trust it with SSL_CERT_FILE={made.authority}", flush=True)
    try:
        await ended
    finally:
        server.close()
        log.close()
    return 0


def _end(ended: "asyncio.Future[None]", error: BaseException | None = None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def _come_first() -> None:
    """A stamp that is late makes the next gap look too short: time stamps before throughput."""
    try:
        os.nice(-10)
    except OSError:
        pass


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
