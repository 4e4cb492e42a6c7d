"""One run: a web on one core, a fetcher or a peer on the other, the same pages for whoever fetches them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.fetch.order import Order, Spent
from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec

ROOT = Path(__file__).parents[2]
PEER = Path(__file__).with_name("scrapy_peer.py")
PAGES = WebSpec(size=52_500, spread=0.905, cross=0)
"""Pages of 5 to 100 KB."""


class Failed(RuntimeError):
    """A run that did not do what it was measured for."""


class Bench:
    def __init__(self, folder: Path, peers: Path | None, profile: Path | None) -> None:
        """`peers`: the Python that Scrapy is installed for. `profile`: folder for cProfile files."""
        self.folder, self.peers, self.profile = folder, peers, profile
        cores = sorted(os.sched_getaffinity(0))
        self._web_core, self._core = {cores[0]}, {cores[-1]}

    @contextmanager
    def web(self, spec: WebSpec) -> Iterator[RunningWeb]:
        with RunningWeb(spec) as web:
            os.sched_setaffinity(web.pid, self._web_core)
            yield web

    def fetcher(
        self,
        web: RunningWeb,
        client: str,
        urls: list[str],
        *,
        ahead: Sequence[str] = (),
        delay: float = 0.0,
        label: str = "",
    ) -> Spent:
        """`ahead`: URLs asked for first that need not end; their hosts are not asked before the clock starts."""
        order = Order(
            client=client,
            warm=self._file("warm", _first_of_each_host(urls)),
            urls=self._file("urls", [*ahead, *urls]),
            delay=delay,
            enough=len(urls) if ahead else 0,
            profile=str(self.profile / f"{label or 'run'}-{client}.prof") if self.profile else "",
        )
        command = [sys.executable, "-m", "benchmarks.fetch.child", msgspec.json.encode(order).decode()]
        return _checked(self._run(command, web), len(urls))

    def scrapy(self, web: RunningWeb, kind: str, urls: list[str]) -> Spent:
        warm, counted = self._file("warm", _first_of_each_host(urls)), self._file("urls", urls)
        return _checked(self._run([str(self.peers), str(PEER), kind, warm, counted], web), len(urls))

    def version(self) -> str:
        """Of Scrapy."""
        code = "import scrapy, sys; print(scrapy.__version__)"
        return subprocess.run([str(self.peers), "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    def _file(self, name: str, urls: list[str]) -> str:
        path = self.folder / name
        path.write_text("\n".join(urls))
        return str(path)

    def _run(self, command: list[str], web: RunningWeb) -> Spent:
        environment = os.environ | ({"SSL_CERT_FILE": str(web.ca)} if web.spec.tls else {})
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: os.sched_setaffinity(0, self._core),
        )
        if done.returncode or not done.stdout:
            raise Failed(f"{' '.join(command[1:4])}: {done.stderr.strip()[-2000:]}")
        return msgspec.json.decode(done.stdout, type=Spent)


def page_urls(web: RunningWeb, hosts: range, each: int) -> list[str]:
    """`each` pages of every host, in turns over the hosts, as a frontier releases them."""
    return [web.url(host, f"/p/{page}") for page in range(1, each + 1) for host in hosts]


def _first_of_each_host(urls: list[str]) -> list[str]:
    return list({url.split("/", 3)[2]: url.partition("/p/")[0] + "/" for url in urls}.values())


def _checked(spent: Spent, pages: int) -> Spent:
    if spent.pages < pages:
        raise Failed(f"{pages} pages were wanted, and this is what came: {spent.outcomes}")
    return spent
