"""What kind of page a URL names, whether pages of that kind are stored, and how many of them a group may have."""

from headrace_schemas.messages import CrawlSettings
from headrace_schemas.patterns import Captures, Patterns
from headrace_schemas.rules import ALL_TYPES, DEFAULT_TYPE, group_cap, page_type


class PageTypes:
    """May raise `BadRule` or `BadPattern`."""

    def __init__(self, settings: CrawlSettings) -> None:
        types = [page_type(text) for text in settings.page_types]
        self._names = (*(name for name, _ in types), DEFAULT_TYPE)
        self._patterns = Patterns([pattern for _, pattern in types])
        self._follow_only = frozenset(settings.follow_only)
        self._captures = Captures(settings.group) if settings.group else None
        self._caps = dict(group_cap(text) for text in settings.group_pages)

    def of(self, url: str) -> str:
        return self._names[self._patterns.first(url)] if self._patterns else DEFAULT_TYPE

    def stored(self, name: str) -> bool:
        return name not in self._follow_only

    def group(self, url: str) -> str:
        """Captures joined by "/"; empty: in no group."""
        if self._captures is None:
            return ""
        caught = self._captures.of(url)
        return "/".join(caught) if caught and any(caught) else ""

    def cap(self, name: str) -> int:
        """Pages of the type in one group; 0: no limit."""
        return 0 if name == ALL_TYPES else self._caps.get(name, 0)

    @property
    def total(self) -> int:
        """Pages of all types in one group; 0: no limit."""
        return self._caps.get(ALL_TYPES, 0)
