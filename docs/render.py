"""Writes the pages that are derived from code: `python docs/render.py`. A test fails when they are stale."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry

from headrace_fetcher.meters import Meters
from headrace_frontier import metrics as frontier_metrics
from headrace_parser.metrics import ParserMetrics
from headrace_runtime.clock import SystemClock
from headrace_runtime.config import documented
from headrace_runtime.streams.janitor import Janitor
from headrace_runtime.streams.kafka.meters import KafkaMeters
from headrace_runtime.streams.metered import LaneMeters
from headrace_runtime.streams.seams import Streams
from headrace_runtime.vitals import Vitals
from headrace_schemas.topics import DAY, TOPICS, Topic
from headrace_storer import metrics as storer_metrics

HERE = Path(__file__).parent


def topics() -> str:
    lines = [
        "# The topics",
        "",
        "Derived from `schemas/headrace_schemas/topics.py`; do not edit.",
        "",
        "| topic | messages | partition by | from | to | kept |",
        "|---|---|---|---|---|---|",
    ]
    for topic in TOPICS.values():
        types = ", ".join(f"`{kind.__name__}`" for kind in topic.types) or "state entries"
        producers, readers = ", ".join(topic.producers), ", ".join(topic.readers) or "everyone, without a group"
        lines.append(f"| `{topic.name}` | {types} | {topic.key} | {producers} | {readers} | {_kept(topic)} |")
    return "\n".join(lines) + "\n"


def _kept(topic: Topic) -> str:
    if topic.kind in ("table", "changelog"):
        return "latest value per key"
    days = f"{topic.keep / DAY:.0f} d" if topic.keep else "0"
    return f"{days} after it was written" if topic.kind == "audit" else f"read by all + {days}"


def settings() -> str:
    lines = [
        "# Settings",
        "",
        "Derived from `schemas/headrace_schemas/settings.py`; do not edit. `crawl.yaml` < environment",
        "(`HEADRACE_A__B`, lists as JSON) < flags and `--set a.b=c`.",
        "`headrace config show` prints those in force and where each came from.",
        "",
        "| setting | default | allowed | meaning |",
        "|---|---|---|---|",
    ]
    for entry in documented():
        help_text, allowed = entry.help.replace("|", "\\|"), str(entry.allowed).replace("|", "\\|")
        default = str(entry.default).replace("|", "\\|")
        lines.append(f"| `{entry.name}` | `{default}` | {allowed} | {help_text} |")
    return "\n".join(lines) + "\n"


def metrics() -> str:
    lines = [
        "# Metrics",
        "",
        "Derived from the code that exports them; do not edit. Every process shows its own under `/metrics`, beside",
        "the usual `process_` and `python_` series of its main process. A histogram has `_bucket`, `_sum` and",
        "`_count`. What to watch, and when to worry: [operations](operations.md).",
        "",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for owner, registry in exporters().items():
        lines.append(f"| **{owner}** | | | |")
        rows = sorted(row for collector in registry._collector_to_names for row in _described(collector))
        lines += [f"| `{name}` | {kind} | {labels} | {text} |" for name, kind, labels, text in rows]
    return "\n".join(lines) + "\n"


def exporters() -> dict[str, CollectorRegistry]:
    """Who exports what, with all that is counted under other names in one registry each."""
    every, kafka, frontier, fetcher, parser, storer = (CollectorRegistry() for _ in range(6))
    LaneMeters.of(every)
    Janitor(cast(Streams, None), {}, 0.0, frontier)
    Vitals(every, (), HERE)
    KafkaMeters(kafka)
    frontier_metrics.Metrics(frontier)
    Meters(fetcher, SystemClock())
    ParserMetrics(parser).watch(tuple)
    storer_metrics.Metrics(storer)
    return {
        "every process": every,
        "every process on Kafka": kafka,
        "frontier": frontier,
        "fetcher": fetcher,
        "parser": parser,
        "storer": storer,
    }


def _described(collector: Any) -> Iterator[tuple[str, str, str, str]]:
    for family in collector.describe() if hasattr(collector, "describe") else collector.collect():
        labels = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", ())
        name = family.name + ("_total" if family.type == "counter" else "")
        text = family.documentation.rstrip(".").replace("|", "\\|")
        yield name, family.type, ", ".join(f"`{label}`" for label in labels), text


PAGES = {"topics.md": topics, "settings.md": settings, "metrics.md": metrics}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (HERE / name).write_text(render(), encoding="utf-8")
