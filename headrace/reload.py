"""SIGHUP: the configuration is read again, and what can change under way does. The rest is named, not guessed at."""

import logging
from collections.abc import Callable

from headrace_runtime.config import flatten
from headrace_runtime.config_fields import fields
from headrace_runtime.logs import get_logger
from headrace_schemas.errors import HeadraceError
from headrace_schemas.settings import Settings

log = get_logger("config")

CRAWL_WIDE = (
    *(name for name in fields() if name.startswith("scope.")),
    *("limits.max_pages", "limits.max_depth", "limits.max_backlog", "limits.host_pages", "limits.host_bytes"),
    *("limits.group_pages", "politeness.delay", "politeness.hosts"),
)
"""Take effect through `crawl.control`: a running `crawl` publishes them, in a fleet `headrace seed`."""


class Reloader:
    """`read` gives the settings as they would be at a start now."""

    def __init__(self, settings: Settings, read: Callable[[], Settings]) -> None:
        self.settings, self._read = settings, read

    def on_signal(self) -> None:
        self.reload()

    def reload(self) -> Settings | None:
        """→ the new settings, or None if they are wrong: then the old ones stay in force."""
        try:
            new = self._read()
        except HeadraceError as error:
            log.error("configuration not reloaded, the old one stays", why=str(error))
            return None
        before = dict(flatten(self.settings))
        changed = [name for name, value in flatten(new) if value != before.get(name)]
        fixed = [name for name in changed if name not in CRAWL_WIDE and name != "log.level"]
        if "log.level" in changed:
            logging.getLogger().setLevel(new.log.level.upper())
        self.settings = new
        log.warning("configuration reloaded", changed=changed, **({"after_a_restart": fixed} if fixed else {}))
        return new
