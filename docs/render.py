"""Writes the pages that are derived from code: `python docs/render.py`. A test fails when they are stale."""

from pathlib import Path

from headrace_runtime.config import documented
from headrace_schemas.topics import DAY, TOPICS, Topic

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


PAGES = {"topics.md": topics, "settings.md": settings}

if __name__ == "__main__":
    for name, render in PAGES.items():
        (HERE / name).write_text(render(), encoding="utf-8")
