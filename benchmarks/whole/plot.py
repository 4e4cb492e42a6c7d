"""The table as a picture: an SVG of bars that can be read on a light page and on a dark one. No library."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from benchmarks.figures import number
from benchmarks.whole.compare import SCRAPY, Line

WIDTH, NAMES, RIGHT = 760, 150, 230
"""Pixels: of all of it, left of the bars, right of the longest."""
TOP, BAR, STEP, GAP = 64, 20, 28, 44
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.head { font-size: 16px; font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.ours { fill: #1a7f64 }
.peer { fill: #9aa4af }
line { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .ours { fill: #3fb68b }
  .peer { fill: #6e7681 }
  line { stroke: #3d444d }
}
"""


def plot(lines: Sequence[Line], caption: str) -> str:
    """One bar for each line of one core, in groups by size, as long as its pages for each second of CPU."""
    shown = [line for line in lines if line.cores == 1]
    most = max((line.per_cpu for line in shown), default=1.0)
    parts, y = [], TOP
    for size in dict.fromkeys(line.size for line in shown):
        group = sorted((line for line in shown if line.size == size), key=lambda line: -line.per_cpu)
        scrapy = next((line.per_cpu for line in group if line.crawler.startswith(SCRAPY)), 0.0)
        parts.append(_text(0, y, f"pages of {size}", "head"))
        y += 12
        parts.append(f'<line x1="{NAMES}" y1="{y}" x2="{NAMES}" y2="{y + STEP * len(group)}"/>')
        for line in group:
            parts += _bar(line, y + (STEP - BAR) // 2, (WIDTH - NAMES - RIGHT) * line.per_cpu / most, scrapy)
            y += STEP
        y += GAP
    height = y - GAP + 34
    parts += [_text(0, 18, "Pages for each second of CPU, all processes counted", "head")]
    parts += [_text(0, 36, "one core; ours store every page durably, the others store nothing", "small")]
    parts += [_text(0, height - 6, caption, "small")]
    body = "\n".join(parts)
    box = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">\n<style>{STYLE}</style>\n{body}\n</svg>\n'


def _bar(line: Line, y: int, length: float, scrapy: float) -> list[str]:
    ours = "ours" if line.crawler.startswith("headrace") else "peer"
    middle, said = y + BAR // 2 + 5, number(line.per_cpu)
    if scrapy and not line.crawler.startswith(SCRAPY):
        said += f" · {line.per_cpu / scrapy:.1f} × Scrapy"
    said += f" · {line.rss:,.0f} MB"
    return [
        _text(NAMES - 8, middle, line.crawler, "", "end"),
        f'<rect class="{ours}" x="{NAMES}" y="{y}" width="{max(1.0, length):.1f}" height="{BAR}" rx="2"/>',
        _text(NAMES + length + 8, middle, said),
    ]


def _text(x: float, y: float, said: str, style: str = "", anchor: str = "start") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{kind}>{escape(said)}</text>'
