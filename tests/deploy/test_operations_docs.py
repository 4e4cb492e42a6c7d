"""docs/operations.md: what it says of topics is how they are made, and its links lead somewhere."""

import re

import pytest
import yaml

from headrace_runtime import config
from headrace_runtime.streams.kafka.topics import configs
from headrace_schemas.topics import DAY, TOPICS
from tests.deploy.compose_file import NEEDED, ROOT, services

TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Until the next heading of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def test_what_it_says_of_a_full_kafka_is_how_topics_are_made() -> None:
    said = section("When Kafka's disk is full")
    assert "`retention.bytes` and `retention.ms` are -1" in said
    made = {row.name: configs(row, 1) for row in TOPICS.values()}
    for row in TOPICS.values():
        if row.kind == "work":
            assert (made[row.name]["retention.bytes"], made[row.name]["retention.ms"]) == ("-1", "-1")
            assert f"{int(made[row.name]['segment.bytes']) >> 20} MiB more for each partition" in said
    [limited] = re.findall(r"--entity-name (\S+) --add-config retention\.bytes=", said)
    assert TOPICS[limited].kind == "audit"
    assert f"kept for {TOPICS[limited].keep / DAY:.0f} days" in said
    partitions = int(services(NEEDED)["frontier"]["environment"]["HEADRACE_STREAMS__PARTITIONS"])
    assert f"with {partitions} partitions is {partitions * 64 // 1024} GiB" in said


def test_the_settings_it_shows_are_some_there_are() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert shown
    for text in shown:
        for group, values in yaml.safe_load(text).items():
            for name, value in values.items():
                config.load(None, {f"HEADRACE_{group}__{name}".upper(): str(value)})


def anchors(text: str) -> set[str]:
    """As GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    file = ROOT / page
    text = file.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (file.parent / path).resolve() if path else file
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8")), target
