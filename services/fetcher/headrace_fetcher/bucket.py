"""The rate of the whole process, as a token bucket. Pure: the time is an argument."""


class Bucket:
    """Tokens for request starts: `rate` a second, a tenth of a second's worth saved up at the most."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._size = max(1.0, rate / 10)
        self._tokens = self._size
        self._at = float("-inf")

    def take(self, now: float) -> bool:
        if not self._rate:
            return True
        if now > self._at:
            self._tokens = min(self._size, self._tokens + (now - max(self._at, now - 60)) * self._rate)
            self._at = now
        if self._tokens < 1.0 - 1e-9:  # the time `next` names must do, rounded as it is
            return False
        self._tokens -= 1.0
        return True

    def give_back(self) -> None:
        """What was taken last was not used."""
        self._tokens = min(self._size, self._tokens + 1.0)

    def next(self, now: float) -> float:
        """When `take` will next succeed."""
        return now + max(0.0, 1.0 - self._tokens) / self._rate if self._rate else now
