"""Which parameters of a query name a page and which are only carried along (tracking, sessions), site by site."""

from collections.abc import Iterable

from headrace_schemas.errors import UsageError
from headrace_schemas.rules import BadRule, SiteParams, site_params

_REMEMBERED = 10_000


class Dropped(dict[str, bool]):
    """Name of a parameter → whether it is dropped; remembered, for the same few names come with every link."""

    def __init__(self, drop: Iterable[str], keep: Iterable[str] | None = None) -> None:
        """`keep`: where given, nothing else is kept, and `drop` says nothing."""
        super().__init__()
        self._keeps = keep is not None
        self._exact, self._prefixes = _names(drop if keep is None else keep)

    def __missing__(self, name: str) -> bool:
        if len(self) >= _REMEMBERED:
            self.clear()
        low = name.lower()
        self[name] = verdict = (low in self._exact or low.startswith(self._prefixes)) != self._keeps
        return verdict


class Sites:
    """`canonical.sites`, put together with the list that holds everywhere. The nearest entry for a host decides."""

    def __init__(self, texts: Iterable[str], everywhere: tuple[str, ...]) -> None:
        kept: dict[str, list[str]] = {}
        dropped: dict[str, list[str]] = {}
        for rule in map(_read, texts):
            (kept if rule.keep else dropped).setdefault(rule.site, []).extend(rule.names)
        self._rules = {
            site: Dropped((*everywhere, *dropped.get(site, ())), kept.get(site)) for site in {*kept, *dropped}
        }
        self._default = Dropped(everywhere)

    def of(self, host: str) -> Dropped:
        found = self._rules.get(host)
        parent = "." + host
        while found is None and parent:
            found = self._rules.get(parent)
            dot = parent.find(".", 1)
            parent = parent[dot:] if dot > 0 else ""
        return self._default if found is None else found


def _names(texts: Iterable[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    names = [text.lower() for text in texts]
    return (
        frozenset(name for name in names if not name.endswith("*")),
        tuple(name[:-1] for name in names if name.endswith("*")),
    )


def _read(text: str) -> SiteParams:
    try:
        return site_params(text)
    except BadRule as error:
        raise UsageError(f"canonical.sites: {text!r} will not do; allowed: {error}") from None
