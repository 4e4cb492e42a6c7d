"""How long to wait before trying again."""

import random

from headrace_schemas.settings import RetrySettings


class Backoff:
    def __init__(self, settings: RetrySettings) -> None:
        self._settings = settings

    def again(self, attempt: int) -> bool:
        """Whether another attempt is left after the `attempt`-th."""
        return attempt < self._settings.attempts

    def wait(self, attempt: int, seed: int, asked: float = 0.0) -> float:
        """Seconds after the `attempt`-th; `asked` is the server's Retry-After. `seed` makes the jitter reproducible."""
        s = self._settings
        longest = min(s.cap, s.base * 2.0 ** min(attempt - 1, 30))
        jittered = longest * random.Random(seed).uniform(0.5, 1.0)
        return max(jittered, self.honoured(asked))

    def honoured(self, asked: float) -> float:
        """Of a Retry-After: a server that asks for a year, or for NaN, gets the limit or nothing."""
        return min(asked, self._settings.max_retry_after) if asked > 0 else 0.0

    def until(self, at: float, now: float) -> float:
        """`at` as somebody else named it, at most the longest wait from `now`: also for infinity and NaN."""
        latest = now + self._settings.max_retry_after
        return at if at < latest else latest
