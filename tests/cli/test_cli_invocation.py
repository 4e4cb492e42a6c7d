"""What the summary says to type next can be typed."""

import shlex
from pathlib import Path

from headrace.invocation import how_to


def test_a_workspace_with_spaces_is_quoted_for_the_shell() -> None:
    assert shlex.split(how_to("pages", Path("my crawl/wörk")))[-3:] == ["pages", "--workspace", "my crawl/wörk"]


def test_the_default_workspace_is_not_mentioned() -> None:
    assert how_to("pages", Path("workspace")).endswith(" pages")
