"""What a child is told to do, and what it says it cost: JSON both ways."""

from msgspec import Struct, field


class Order(Struct, frozen=True, kw_only=True):
    client: str
    """As `fetch.client` has it."""
    warm: str
    """File of URLs fetched before the clock starts: connections are made then."""
    urls: str
    """File of URLs that are counted."""
    delay: float = 0.0
    """Seconds owed to each host."""
    enough: int = 0
    """Pages after which it ends, whatever is still under way; 0: when all is settled."""
    profile: str = ""
    """File for cProfile; the figures are worthless then."""


class Spent(Struct, frozen=True):
    cpu: float
    """CPU seconds of the process, all threads."""
    seconds: float
    outcomes: dict[str, int]
    """Status or reason → how many."""
    bytes: int
    """Of bodies, decompressed."""
    rss: float = field(default=0.0)
    """MB at the most."""

    @property
    def pages(self) -> int:
        return self.outcomes.get("200", 0)

    @property
    def per_page(self) -> float:
        """CPU seconds."""
        return self.cpu / max(1, self.pages)
