"""A web in its own process, for tests, benchmarks and the demo: it must not share a core's time with what it judges."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.web import log
from benchmarks.web.certificates import AUTHORITY
from benchmarks.web.expected import Expected, Walk, walk
from benchmarks.web.log import Gap, Request
from benchmarks.web.site import Site
from benchmarks.web.spec import WebSpec

_ROOT = Path(__file__).parents[2]


class WebDidNotStart(RuntimeError):
    pass


class RunningWeb:
    """A context manager. The server ends with it, and also when this process dies: it reads our end of a pipe."""

    def __init__(self, spec: WebSpec | None = None, *, folder: Path | None = None, quiet: bool = False) -> None:
        """`folder`: where the log goes and stays; without, a temporary one that goes with the web.
        `quiet`: the server's own complaints are not shown; the caller has a better word for a port that is taken."""
        self._wanted = spec or WebSpec()
        self._keep, self._quiet = folder is not None, quiet
        self._folder = folder.resolve() if folder else Path(tempfile.mkdtemp(prefix="web-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self._folder / "requests.jsonl"
        self.site: Site

    def __enter__(self) -> Self:
        try:
            self._start(self._wanted)
        except BaseException:
            self._forget()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        self._forget()

    # ---- its process -----------------------------------------------------------------------------

    def _start(self, spec: WebSpec, append: bool = False) -> None:
        command = [sys.executable, "-m", "benchmarks.web", "--until-eof", "--log", str(self.log)]
        command += ["--certificates", str(self._folder / "tls")] if spec.tls else []
        command += ["--spec", msgspec.json.encode(spec).decode(), *(["--append"] if append else [])]
        # a session of its own: a Ctrl-C at the terminal is for the crawler, which may still need its web to drain
        self._process = subprocess.Popen(
            command,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self._quiet else None,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        if not line.startswith("ready "):
            self.stop()
            raise WebDidNotStart(f"no web on port {spec.port or '(any)'}")
        self.site = Site(spec.at(int(line.rstrip("/").rpartition(":")[2])))

    def stop(self) -> int | None:
        """→ its exit code; None if it was not running."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.terminate()
        process.send_signal(signal.SIGCONT)  # it may be frozen
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def restart(self, spec: WebSpec | None = None) -> None:
        """On the same port and log, with another spec if given: a web that changed, or came back."""
        self.stop()
        self._start((spec or self.site.spec).at(self.port), append=True)

    def freeze(self, frozen: bool = True) -> None:
        """A server that hangs: connections are accepted by the system, and nothing answers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise WebDidNotStart("it is not running")
        return self._process.pid

    def _forget(self) -> None:
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    # ---- what is there ---------------------------------------------------------------------------

    @property
    def spec(self) -> WebSpec:
        return self.site.spec

    @property
    def port(self) -> int:
        return self.site.spec.port

    @property
    def ca(self) -> Path:
        """With tls: the authority that its certificate is of; SSL_CERT_FILE takes it."""
        return self._folder / "tls" / AUTHORITY

    def url(self, host: int = 0, path: str = "/") -> str:
        return self.site.graph.url(host, path)

    def seeds(self, count: int = 1) -> list[str]:
        """The front pages of the first hosts; all others can be reached from the first."""
        return [self.url(host) for host in range(min(count, self.spec.hosts))]

    def expected(self, seeds: Iterable[str] | None = None, *, slash_is_same: bool = False) -> list[Expected]:
        return self.walk(seeds, slash_is_same=slash_is_same).requested

    def walk(self, seeds: Iterable[str] | None = None, *, slash_is_same: bool = False) -> Walk:
        return walk(self.site, self.seeds() if seeds is None else seeds, slash_is_same=slash_is_same)

    # ---- what was asked of it --------------------------------------------------------------------

    def requests(self) -> list[Request]:
        return log.read(self.log)

    def gaps(self) -> list[Gap]:
        """Per host, start to start, smallest first."""
        return log.gaps(self.requests())

    def under(self, delay: float, slack: float = 0.9) -> list[Gap]:
        """Requests that came sooner than `delay` seconds, or the host's Crawl-delay, after the one before."""
        return log.too_soon(self.gaps(), lambda ip: max(delay, self.site.crawl_delay(ip)), slack)
