"""The cases of `make bench-fetch`. Rounds of what is compared alternate, and the median counts: machines are shared."""

from collections.abc import Callable, Iterable
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.fetch.bench import PAGES, Bench, page_urls
from benchmarks.fetch.order import Spent
from benchmarks.figures import Figure
from benchmarks.web import log
from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from headrace_schemas.settings import FetchSettings

LINES = {
    "plain": {},
    "TLS, kept alive": {"tls": True},
    "TLS, new connections": {"tls": True, "keep_alive": False},
}
"""How pages travel → the web's settings for that."""
SCRAPY = ("default", "bare", "aiohttp", "engine")
BARS = {"Scrapy engine": ">= 5", "Scrapy default": ">= 5", "Scrapy bare": ""}
"""Whom our clients are held against; the bars are for the one that is used where nothing is set."""
UNIT = "pages per CPU-s"
SMALL = WebSpec(size=3_000, spread=0.2, cross=0)


class Sizes(Struct, frozen=True, kw_only=True):
    rounds: int = 3
    hosts: int = 100
    pages: int = 2_000
    """Fetched by everyone in each round; half of it over new connections."""
    few: int = 10
    many: int = 1_000
    """Hosts, in the case of that name."""
    polite_hosts: int = 200
    polite_pages: int = 20
    """Of each of them."""
    slow_pages: int = 30
    """Of each host beside the slow ones."""
    delay: float = 1.0
    """Seconds, of polite hosts."""
    pace: float = 0.2
    """Seconds between requests to each host, beside the slow ones."""


def against_scrapy(bench: Bench, sizes: Sizes, clients: Iterable[str]) -> list[Figure]:
    figures = []
    for line, settings in LINES.items():
        each = max(1, sizes.pages // sizes.hosts // (2 if "new" in line else 1))
        with bench.web(replace(PAGES, hosts=sizes.hosts, pages=each + 1, **settings)) as web:
            urls = page_urls(web, range(sizes.hosts), each)
            runs = {client: _with(bench, web, client, urls, line) for client in clients}
            if bench.peers:
                runs |= {f"Scrapy {kind}": _peer(bench, web, kind, urls) for kind in SCRAPY}
            found = _rounds(runs, sizes.rounds)
        figures += compared(line, found, bench.version() if bench.peers else "")
    return figures


def compared(line: str, found: dict[str, list[Spent]], version: str) -> list[Figure]:
    """`found`: the runs of our clients, and of "Scrapy KIND"."""
    rates = {name: 1 / median(spent.per_page for spent in runs) for name, runs in found.items()}
    figures = [
        Figure(line, name.replace("Scrapy", f"Scrapy {version}"), rate, UNIT, note=_range(found[name]))
        for name, rate in rates.items()
    ]
    for peer in BARS:
        for name, rate in rates.items():
            if peer in rates and not name.startswith("Scrapy"):
                bar = BARS[peer] if name == FetchSettings().client else ""
                figures.append(Figure(line, f"{name} / {peer}", rate / rates[peer], "×", bar))
    return figures


def small(bench: Bench, sizes: Sizes, clients: Iterable[str]) -> list[Figure]:
    """Pages with so little in them that what they cost is what we spend on any page."""
    each = max(1, 2 * sizes.pages // sizes.hosts)
    with bench.web(replace(SMALL, hosts=sizes.hosts, pages=each + 1)) as web:
        urls = page_urls(web, range(sizes.hosts), each)
        found = _rounds({client: _with(bench, web, client, urls, "small") for client in clients}, sizes.rounds)
    return compared("pages of 3 KB", found, "")


def hosts(bench: Bench, sizes: Sizes, clients: Iterable[str]) -> list[Figure]:
    """As many pages of few hosts as of many, over connections made before."""
    figures = []
    with bench.web(replace(PAGES, hosts=sizes.many, pages=2 + sizes.pages * 2 // sizes.few)) as web:
        urls = {
            number: page_urls(web, range(number), max(1, sizes.pages * 2 // number))
            for number in (sizes.few, sizes.many)
        }
        for client in clients:
            runs = {str(number): _with(bench, web, client, of, f"{number} hosts") for number, of in urls.items()}
            found = _rounds(runs, sizes.rounds)
            costs = {name: median(spent.per_page for spent in spents) for name, spents in found.items()}
            for name, cost in costs.items():
                figures.append(Figure("hosts", f"{client}, {name}", 1 / cost, UNIT, note=_range(found[name])))
            ratio = costs[str(sizes.many)] / costs[str(sizes.few)]
            figures.append(Figure("hosts", f"{client}: a page at {sizes.many}", ratio, f"× at {sizes.few}", "<= 1.2"))
    return figures


def polite(bench: Bench, sizes: Sizes, clients: Iterable[str]) -> list[Figure]:
    """All hosts at their delay: as fast as that allows, and never sooner. The server's log is the judge."""
    figures = []
    number, each, delay = sizes.polite_hosts, sizes.polite_pages, sizes.delay
    for client in clients:
        with bench.web(replace(PAGES, hosts=number, pages=each + 1)) as web:
            spent = bench.fetcher(web, client, page_urls(web, range(number), each), delay=delay, label="polite")
            asked, gaps = [request for request in web.requests() if request.path != "/"], web.gaps()
        begin = min(request.t for request in asked) + delay
        end = begin + max(1, each - 3) * delay  # the first and the last second are not full
        rate = sum(begin <= request.t < end for request in asked) / (end - begin)
        short = [gap for gap in gaps if gap.seconds < delay]
        what, most = f"{number} hosts at {delay:g} s", number / delay
        figures += [
            Figure(what, f"{client}, of {most:g} possible", rate, "pages/s", f">= {0.95 * most:g}"),
            Figure(what, f"{client}, requests too soon", len(short), "", "== 0", f"of {len(gaps):,}"),
            Figure(what, f"{client}, shortest gap", gaps[0].seconds * 1000, "ms"),
            Figure(what, f"{client}, at that pace", 1 / spent.per_page, UNIT),
        ]
    return figures


def slow(bench: Bench, sizes: Sizes, clients: Iterable[str]) -> list[Figure]:
    """What the pages of the others take longer beside a host that answers in 5 s and one that drips.

    At a pace that the machine keeps easily: so it shows who waits for whom, and not who else uses the machine.
    """
    figures = []
    number, each = sizes.hosts, sizes.slow_pages
    shared = replace(PAGES, hosts=number + 2, pages=each + 1)
    hurt = replace(shared, slow_hosts=1, slow_ms=5_000, drip_hosts=1)
    for client in clients:
        times: dict[str, list[float]] = {"alone": [], "beside": []}
        costs: dict[str, list[Spent]] = {"alone": [], "beside": []}
        for _ in range(sizes.rounds):
            for case, spec in (("alone", shared), ("beside", hurt)):
                with bench.web(spec) as web:
                    urls, last = page_urls(web, range(number), each), range(number, number + 2)
                    ahead = page_urls(web, last, min(5, each))  # one of each under way all the time
                    label = f"slow-{case}"
                    costs[case].append(bench.fetcher(web, client, urls, ahead=ahead, delay=sizes.pace, label=label))
                    times[case].append(_lasted(web.requests(), {web.spec.address(host) for host in range(number)}))
        seconds = {case: median(taken) for case, taken in times.items()}
        cpu = {case: median(spent.per_page for spent in spents) for case, spents in costs.items()}
        what = "5 s and dripping hosts"
        figures += [
            Figure(what, f"{client}: {number} others alone", number * each / seconds["alone"], "pages/s"),
            Figure(what, f"{client}: beside them", number * each / seconds["beside"], "pages/s"),
            Figure(what, f"{client}: time", 100 * (seconds["beside"] / seconds["alone"] - 1), "%", "< 5"),
            Figure(what, f"{client}: CPU of a page", 100 * (cpu["beside"] / cpu["alone"] - 1), "%"),
        ]
    return figures


def _lasted(requests: list[log.Request], of: set[str]) -> float:
    times = [request.t for request in requests if request.ip in of and request.path != "/"]
    return max(times) - min(times)


def _with(bench: Bench, web: RunningWeb, client: str, urls: list[str], label: str) -> Callable[[], Spent]:
    return lambda: bench.fetcher(web, client, urls, label=label.replace(", ", "-").replace(" ", "-"))


def _peer(bench: Bench, web: RunningWeb, kind: str, urls: list[str]) -> Callable[[], Spent]:
    return lambda: bench.scrapy(web, kind, urls)


def _rounds(runs: dict[str, Callable[[], Spent]], rounds: int) -> dict[str, list[Spent]]:
    found: dict[str, list[Spent]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    return found


def _range(spents: list[Spent]) -> str:
    rates = [1 / spent.per_page for spent in spents]
    return f"{min(rates):,.0f} to {max(rates):,.0f}"
