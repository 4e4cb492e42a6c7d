"""The pages of docs/ that are derived from code say what the code says."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = runpy.run_path(str(DOCS / "render.py"))["PAGES"]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_derived_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run: make docs"


def test_every_topic_of_the_flow_is_in_the_readme() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    for topic in ("links.discovered", "urls.to_fetch", "pages.fetched", "fetch.results", "pages.parsed"):
        assert topic in readme
